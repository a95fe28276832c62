//! The arrows of the code, read from its source: no circle between the modules of a crate, and nothing impure in what
//! decides.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{
    collections::{BTreeMap, BTreeSet},
    fs,
    path::{Path, PathBuf},
};

use syn::{
    Attribute, Item, ItemMod, UseTree,
    visit::{self, Visit},
};

const CRATES: &[&str] = &[
    "allocators",
    "api",
    "controllers",
    "lab/apiserver",
    "lab/machinery",
    "lab/network",
    "lab/simulator",
    "lab/store",
    "manager",
    "nodeproxy",
    "page",
    "tests",
    "tls",
];
/// Crates that are pure as a whole; of the others, the modules named `plan`.
const PURE: &[&str] = &["allocators", "api", "lab/machinery"];
/// What has no place where something is decided: crates, modules and functions by how their paths begin or end.
const IMPURE_ROOTS: &[&str] = &[
    "tokio",
    "kube",
    "hyper",
    "http",
    "futures",
    "tracing",
    "std::fs",
    "std::process",
    "std::thread",
    "std::env",
    "std::time::Instant",
    "std::time::SystemTime",
];
const IMPURE_CALLS: &[&str] =
    &["Timestamp::now", "Zoned::now", "Instant::now", "SystemTime::now", "rand::rng", "rand::random"];

/// A path of the source and the module it stands in, both from the root of the crate.
struct Reference {
    from: Vec<String>,
    to: Vec<String>,
}

/// Collects the paths of one crate, tests left out.
struct Reader {
    module: Vec<String>,
    /// Where the files of child modules are.
    folder: PathBuf,
    found: Vec<Reference>,
}

impl Reader {
    fn read(root: &Path) -> Vec<Reference> {
        let mut reader = Self { module: Vec::new(), folder: root.join("src"), found: Vec::new() };
        let main = ["lib.rs", "main.rs"].map(|name| root.join("src").join(name));
        let main = main.into_iter().find(|file| file.exists()).unwrap();
        reader.visit_file(&parse(&main));
        reader.found
    }

    fn note(&mut self, path: &[String]) {
        let to = match path.first().map(String::as_str) {
            Some("crate") => path[1..].to_vec(),
            Some("self") => [&self.module[..], &path[1..]].concat(),
            Some("super") => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let Some(depth) = self.module.len().checked_sub(ups) else { return };
                [&self.module[..depth], &path[ups..]].concat()
            }
            // Another crate, the standard library, or a name that a `use` has brought in.
            _ => path.iter().map(|part| format!("::{part}")).collect(),
        };
        self.found.push(Reference { from: self.module.clone(), to });
    }

    fn note_tree(&mut self, before: &mut Vec<String>, tree: &UseTree) {
        match tree {
            UseTree::Path(path) => {
                before.push(path.ident.to_string());
                self.note_tree(before, &path.tree);
                before.pop();
            }
            UseTree::Group(group) => group.items.iter().for_each(|tree| self.note_tree(before, tree)),
            UseTree::Name(name) => self.note(&[&before[..], &[name.ident.to_string()]].concat()),
            UseTree::Rename(name) => self.note(&[&before[..], &[name.ident.to_string()]].concat()),
            UseTree::Glob(_) => self.note(&before.clone()),
        }
    }
}

impl<'ast> Visit<'ast> for Reader {
    fn visit_item(&mut self, item: &'ast Item) {
        let attributes: &[Attribute] = match item {
            Item::Mod(item) => &item.attrs,
            Item::Fn(item) => &item.attrs,
            Item::Impl(item) => &item.attrs,
            Item::Use(item) => &item.attrs,
            _ => &[],
        };
        if !attributes.iter().any(is_for_tests) {
            visit::visit_item(self, item);
        }
    }

    /// An attribute bears the name of a macro or of what a macro reads (`#[kube(..)]`), not of code that runs.
    fn visit_attribute(&mut self, _: &'ast Attribute) {}

    fn visit_item_mod(&mut self, item: &'ast ItemMod) {
        let name = item.ident.to_string();
        let folder = self.folder.join(&name);
        let file = [self.folder.join(format!("{name}.rs")), folder.join("mod.rs")];
        let before = std::mem::replace(&mut self.folder, folder);
        self.module.push(name);
        if item.content.is_some() {
            visit::visit_item_mod(self, item);
        } else {
            let file = file.iter().find(|file| file.exists()).unwrap_or_else(|| panic!("{file:?}"));
            self.visit_file(&parse(file));
        }
        self.module.pop();
        self.folder = before;
    }

    fn visit_item_use(&mut self, item: &'ast syn::ItemUse) {
        self.note_tree(&mut Vec::new(), &item.tree);
    }

    fn visit_path(&mut self, path: &'ast syn::Path) {
        let parts: Vec<String> = path.segments.iter().map(|part| part.ident.to_string()).collect();
        self.note(&parts);
        visit::visit_path(self, path);
    }

    // A macro's own syntax is not known; what stands in it is mostly read elsewhere too.
    fn visit_macro(&mut self, _: &'ast syn::Macro) {}
}

fn is_for_tests(attribute: &Attribute) -> bool {
    attribute.path().is_ident("test")
        || attribute.path().is_ident("cfg")
            && attribute.parse_args::<syn::Ident>().is_ok_and(|condition| condition == "test")
}

fn parse(file: &Path) -> syn::File {
    let text = fs::read_to_string(file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    syn::parse_file(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()))
}

fn root(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..").join(name)
}

/// Which of the modules that stand beside each other, by the module they stand in, uses which others.
fn arrows(references: &[Reference]) -> BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> {
    let modules: BTreeSet<&[String]> =
        references.iter().flat_map(|Reference { from, .. }| (1..=from.len()).map(|n| &from[..n])).collect();
    let mut arrows: BTreeMap<&[String], BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for Reference { from, to } in references {
        let shared = from.iter().zip(to).take_while(|(from, to)| from == to).count();
        if shared < from.len() && shared < to.len() && modules.contains(&to[..=shared]) {
            let beside = arrows.entry(&from[..shared]).or_default();
            beside.entry(&from[shared]).or_default().insert(&to[shared]);
        }
    }
    arrows
}

/// What is left when modules that use nothing any more are taken away again and again: the circles, and what uses them.
fn circles<'a>(arrows: &BTreeMap<&'a str, BTreeSet<&'a str>>) -> BTreeMap<&'a str, BTreeSet<&'a str>> {
    let mut left = arrows.clone();
    loop {
        let using: BTreeSet<&str> = left.keys().copied().collect();
        for used in left.values_mut() {
            used.retain(|module| using.contains(module));
        }
        let before = left.len();
        left.retain(|_, used| !used.is_empty());
        if left.len() == before {
            break;
        }
    }
    // From the other end: nobody in a circle uses what merely uses one.
    loop {
        let used: BTreeSet<&str> = left.values().flatten().copied().collect();
        let before = left.len();
        left.retain(|module, _| used.contains(module));
        if left.len() == before {
            return left;
        }
    }
}

#[test]
fn the_modules_of_a_crate_do_not_go_in_circles() {
    let mut found = Vec::new();
    for name in CRATES {
        let references = Reader::read(&root(name));
        for (parent, arrows) in arrows(&references) {
            for (module, used) in circles(&arrows) {
                let used: Vec<_> = used.into_iter().collect();
                found.push(format!("{name}: {}::{{{module} -> {}}}", parent.join("::"), used.join(", ")));
            }
        }
    }
    assert!(found.is_empty(), "modules that use each other:\n{}", found.join("\n"));
}

#[test]
fn what_decides_is_pure() {
    let mut found = BTreeSet::new();
    for name in CRATES {
        for Reference { from, to } in Reader::read(&root(name)) {
            if !PURE.contains(name) && !from.iter().any(|module| module == "plan") {
                continue;
            }
            let path = to.iter().map(|part| part.trim_start_matches(':')).collect::<Vec<_>>().join("::");
            let foreign = to.first().is_some_and(|part| part.starts_with("::"));
            let begins = |root: &&&str| {
                path.strip_prefix(**root).is_some_and(|rest| rest.is_empty() || rest.starts_with("::"))
            };
            let impure = foreign && IMPURE_ROOTS.iter().find(begins).is_some()
                || IMPURE_CALLS.iter().any(|call| path.ends_with(call));
            if impure {
                found.insert(format!("{name}: {}: {path}", from.join("::")));
            }
        }
    }
    let found: Vec<String> = found.into_iter().collect();
    assert!(found.is_empty(), "modules that decide and are not pure:\n{}", found.join("\n"));
}

#[test]
fn every_crate_of_the_workspace_is_looked_at() {
    let manifest = fs::read_to_string(root("Cargo.toml")).unwrap();
    let members = manifest.lines().find_map(|line| line.strip_prefix("members = ")).unwrap();
    let members: BTreeSet<&str> =
        members.trim_matches(['[', ']']).split(", ").map(|member| member.trim_matches('"')).collect();
    assert_eq!(members, CRATES.iter().copied().collect());
}

/// The folders of a crate's modules that have a file of their name beside them.
fn files_beside_folders(folder: &Path, found: &mut Vec<String>) {
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            if path.with_extension("rs").exists() {
                found.push(path.display().to_string());
            }
            files_beside_folders(&path, found);
        }
    }
}

#[test]
fn a_module_with_children_is_the_mod_rs_of_their_folder() {
    let mut found = Vec::new();
    for name in CRATES {
        files_beside_folders(&root(name).join("src"), &mut found);
    }
    assert!(found.is_empty(), "a file stands beside the folder of its name:\n{}", found.join("\n"));
}

#[test]
fn a_circle_is_seen() {
    let reference = |from: &str, to: &str| {
        let path = |text: &str| text.split("::").map(ToOwned::to_owned).collect();
        Reference { from: path(from), to: path(to) }
    };
    let references = [
        reference("main", "a::Thing"),
        reference("a", "leaf"),
        reference("a::one", "b::two::Thing"),
        reference("b", "a::Thing"),
        reference("leaf::x", "leaf::y::Thing"),
        reference("leaf::y::deep", "leaf::x::function"),
        reference("leaf::z", "leaf::Thing"),
    ];
    let arrows = arrows(&references);
    let top = BTreeMap::from([("a", BTreeSet::from(["b"])), ("b", BTreeSet::from(["a"]))]);
    assert_eq!(circles(&arrows[&[][..]]), top);
    let below = BTreeMap::from([("x", BTreeSet::from(["y"])), ("y", BTreeSet::from(["x"]))]);
    assert_eq!(circles(&arrows[&["leaf".to_owned()][..]]), below);
}
