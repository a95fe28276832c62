// What a program on the JavaScript client does in a day: reads, informers, each kind of patch, apply, watches, refusals.
import * as k8s from '@kubernetes/client-node';

const kc = new k8s.KubeConfig();
kc.loadFromDefault();
const core = kc.makeApiClient(k8s.CoreV1Api);
const apps = kc.makeApiClient(k8s.AppsV1Api);
const reviews = kc.makeApiClient(k8s.AuthorizationV1Api);
const objects = k8s.KubernetesObjectApi.makeApiClient(kc);
const namespace = 'default';
const as = (strategy) => k8s.setHeaderOptions('Content-Type', strategy);

function check(holds, what) {
  if (!holds) throw new Error(what);
}

async function refused(code, call) {
  try {
    await call();
  } catch (error) {
    check(error.code === code, `${code} was expected: ${error}`);
    return;
  }
  throw new Error(`${code} was expected, and it was taken`);
}

function slicesShow(ready) {
  return new Promise((resolve, reject) => {
    const late = setTimeout(() => reject(new Error(`no slice with ${ready} ready endpoints`)), 60000);
    const path = '/apis/discovery.k8s.io/v1/namespaces/default/endpointslices';
    const seen = (_type, slice) => {
      const now = (slice.endpoints ?? []).filter((endpoint) => endpoint.conditions?.ready).length;
      if (now === ready) {
        clearTimeout(late);
        resolve();
      }
    };
    const ended = (error) => error && reject(error);
    new k8s.Watch(kc).watch(path, { labelSelector: 'kubernetes.io/service-name=js' }, seen, ended).catch(reject);
  });
}

console.log((await kc.makeApiClient(k8s.VersionApi).getCode()).gitVersion);
const question = { spec: { resourceAttributes: { verb: 'list', resource: 'services' } } };
check((await reviews.createSelfSubjectAccessReview({ body: question })).status.allowed, 'may list Services');

const informer = k8s.makeInformer(kc, '/api/v1/namespaces/default/services', () => core.listNamespacedService({ namespace }));
const told = new Promise((resolve) => informer.on('add', (service) => service.metadata.name === 'js' && resolve()));
await informer.start();
const service = { metadata: { name: 'js' }, spec: { selector: { app: 'js' }, ports: [{ port: 80 }] } };
check((await core.createNamespacedService({ namespace, body: service })).spec.clusterIP, 'has an address');
await told;

const toNodePort = [{ op: 'replace', path: '/spec/type', value: 'NodePort' }];
await core.patchNamespacedService({ name: 'js', namespace, body: toNodePort }, as(k8s.PatchStrategy.JsonPatch));
check((await core.readNamespacedService({ name: 'js', namespace })).spec.ports[0].nodePort, 'has a node port');
const labelled = { metadata: { labels: { a: 'b' } } };
const strategic = as(k8s.PatchStrategy.StrategicMergePatch);
check((await core.patchNamespacedService({ name: 'js', namespace, body: labelled }, strategic)).metadata.labels.a === 'b', 'label');

const map = { apiVersion: 'v1', kind: 'ConfigMap', metadata: { name: 'js', namespace }, data: { a: 'b' } };
await objects.create(map);
const changed = { ...map, data: { a: 'c' } };
const applied = await objects.patch(changed, undefined, undefined, 'js', true, k8s.PatchStrategy.ServerSideApply);
check(applied.data.a === 'c', 'applied');

const template = { metadata: { labels: { app: 'js' } }, spec: { containers: [{ name: 'c', image: 'i' }] } };
const deployment = { metadata: { name: 'js' }, spec: { replicas: 2, selector: { matchLabels: { app: 'js' } }, template } };
await apps.createNamespacedDeployment({ namespace, body: deployment });
const three = { spec: { replicas: 3 } };
await apps.patchNamespacedDeploymentScale({ name: 'js', namespace, body: three }, as(k8s.PatchStrategy.MergePatch));
await slicesShow(3);

await refused(409, () => core.createNamespacedService({ namespace, body: service }));
const portless = { metadata: { name: 'bad' }, spec: { ports: [{ port: 0 }] } };
await refused(422, () => core.createNamespacedService({ namespace, body: portless }));
await refused(404, () => core.readNamespacedService({ namespace, name: 'nobody' }));

await apps.deleteNamespacedDeployment({ name: 'js', namespace, body: { propagationPolicy: 'Foreground' } });
await core.deleteNamespacedService({ name: 'js', namespace });
await core.deleteNamespacedConfigMap({ name: 'js', namespace });
console.log('done');
process.exit(0);
