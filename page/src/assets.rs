//! The files of the page: they are part of the program.

use std::hash::{DefaultHasher, Hash as _, Hasher as _};

/// A file.
#[derive(Debug)]
pub(crate) struct Asset {
    /// Its name below `/page/`; empty for the page itself.
    pub(crate) name: &'static str,
    /// Its media type.
    pub(crate) media_type: &'static str,
    /// What is in it.
    pub(crate) text: &'static str,
}

const HTML: &str = "text/html; charset=utf-8";
const CSS: &str = "text/css; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";
const SVG: &str = "image/svg+xml";

macro_rules! asset {
    ($name:literal, $media_type:expr) => {
        Asset { name: $name, media_type: $media_type, text: include_str!(concat!("static/", $name)) }
    };
}

/// All files.
pub(crate) const ASSETS: &[Asset] = &[
    Asset { name: "", media_type: HTML, text: include_str!("static/index.html") },
    asset!("icon.svg", SVG),
    asset!("style.css", CSS),
    asset!("app.js", SCRIPT),
    asset!("cells.js", SCRIPT),
    asset!("dom.js", SCRIPT),
    asset!("endpoints.js", SCRIPT),
    asset!("explain.js", SCRIPT),
    asset!("explained.js", SCRIPT),
    asset!("list.js", SCRIPT),
    asset!("map.js", SCRIPT),
    asset!("model.js", SCRIPT),
    asset!("ranges.js", SCRIPT),
    asset!("reconciles.js", SCRIPT),
    asset!("services.js", SCRIPT),
    asset!("store.js", SCRIPT),
];

/// The file of a name.
pub(crate) fn find(name: &str) -> Option<&'static Asset> {
    ASSETS.iter().find(|asset| asset.name == name)
}

impl Asset {
    /// What changes when the file does, as a header has it.
    pub(crate) fn tag(&self) -> String {
        let mut hasher = DefaultHasher::new();
        self.text.hash(&mut hasher);
        format!("\"{:016x}\"", hasher.finish())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_is_asked_of_anybody_else() {
        for asset in ASSETS {
            for scheme in ["http://", "https://"] {
                for (at, _) in asset.text.match_indices(scheme) {
                    let rest = &asset.text[at..];
                    assert!(
                        rest.starts_with("http://www.w3.org/"),
                        "{}: {}",
                        asset.name,
                        &rest[..60.min(rest.len())]
                    );
                }
            }
            assert!(!asset.text.contains("innerHTML"), "{}: text becomes text, not markup", asset.name);
        }
    }

    #[test]
    fn every_script_that_is_asked_for_is_there() {
        for asset in ASSETS {
            for part in asset.text.split("from \"./").skip(1) {
                let name = part.split('"').next().unwrap_or_default();
                assert!(find(name).is_some(), "{} asks for {name}", asset.name);
            }
        }
        let page = find("").unwrap().text;
        for name in ["style.css", "app.js", "icon.svg"] {
            assert!(page.contains(&format!("\"{name}\"")), "{name}");
        }
        assert!(
            !page.contains("style=") && !page.contains("<style") && !page.contains("onclick"),
            "by the policy"
        );
    }
}
