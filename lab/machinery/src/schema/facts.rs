//! What the published schemas of the Kubernetes types do not say, one line a type.
//!
//! Sources: the API reference (list types, merge keys) and the JSON that the API server prints (which empty fields it
//! leaves out). A line is `package Type field:mark,mark ...`; marks are
//!
//! | mark | meaning |
//! | --- | --- |
//! | `*` | a pointer in Go: a zero value that was sent is printed, only null is left out |
//! | `v` | a struct by value: printed as `{}` when it was not sent |
//! | `!` | printed even when empty, although the schema does not require it |
//! | `-` | left out when empty, although the schema requires it |
//! | `=T` | the Go type that decode errors name, when it is not the basic one |
//! | `set`, `map[a;b]` | the list type for server-side apply, with the keys (default: atomic) |
//! | `atomic` | an atomic map (default: each key on its own) |
//! | `merge[k]`, `merge[]` | strategic merge by key `k`, or as a set of scalars |
//! | `keys` | strategic `retainKeys` |
//! | `x` | younger than the API version that is served: not known |
//! | `default[x]` | what stands for a missing list key |
//!
//! The field name `@` stands for the type itself (`@:atomic`).

pub(super) const FACTS: &str = "\
meta ObjectMeta creationTimestamp:* deletionTimestamp:* deletionGracePeriodSeconds:* uid:=types.UID finalizers:set,merge[] ownerReferences:map[uid],merge[uid]
meta OwnerReference @:atomic uid:=types.UID controller:* blockOwnerDeletion:*
meta ManagedFieldsEntry operation:=v1.ManagedFieldsOperationType time:* fieldsV1:*
meta LabelSelector @:atomic
meta LabelSelectorRequirement operator:=v1.LabelSelectorOperator
meta Condition status:=v1.ConditionStatus
meta ListMeta remainingItemCount:*
meta Status metadata:v details:* reason:=v1.StatusReason
meta StatusCause reason:=v1.CauseType
meta StatusDetails uid:=types.UID
meta DeleteOptions gracePeriodSeconds:* preconditions:* orphanDependents:* propagationPolicy:*,=v1.DeletionPropagation
meta Preconditions uid:*,=types.UID resourceVersion:*
core Service metadata:v spec:v status:v
core ServiceSpec ports:map[port;protocol],merge[port] selector:atomic type:=v1.ServiceType sessionAffinity:=v1.ServiceAffinity externalTrafficPolicy:=v1.ServiceExternalTrafficPolicy sessionAffinityConfig:* ipFamilies:=v1.IPFamily ipFamilyPolicy:*,=v1.IPFamilyPolicy allocateLoadBalancerNodePorts:* loadBalancerClass:* internalTrafficPolicy:*,=v1.ServiceInternalTrafficPolicy trafficDistribution:*
core ServicePort protocol:=v1.Protocol,default[TCP] appProtocol:*
core SessionAffinityConfig clientIP:*
core ClientIPConfig timeoutSeconds:*
core ServiceStatus loadBalancer:v conditions:map[type],merge[type]
core LoadBalancerIngress ipMode:*,=v1.LoadBalancerIPMode
core PortStatus protocol:=v1.Protocol error:*
core Endpoints metadata:v
core EndpointAddress @:atomic nodeName:* targetRef:*
core EndpointPort @:atomic protocol:=v1.Protocol appProtocol:*
core ObjectReference @:atomic uid:=types.UID
core LocalObjectReference @:atomic
core Namespace metadata:v spec:v status:v
core NamespaceSpec finalizers:=v1.FinalizerName
core NamespaceStatus phase:=v1.NamespacePhase conditions:map[type],merge[type]
core NamespaceCondition type:=v1.NamespaceConditionType status:=v1.ConditionStatus lastTransitionTime:!
core Node metadata:v spec:v status:v
core NodeSpec podPreemptionPolicy:x podCIDRs:set,merge[] configSource:*
core Taint effect:=v1.TaintEffect timeAdded:*
core NodeStatus capacity:=v1.ResourceList allocatable:=v1.ResourceList phase:=v1.NodePhase conditions:map[type],merge[type] addresses:map[type],merge[type] daemonEndpoints:v nodeInfo:v volumesInUse:=v1.UniqueVolumeName config:* features:*
core NodeCondition type:=v1.NodeConditionType status:=v1.ConditionStatus lastHeartbeatTime:! lastTransitionTime:!
core NodeAddress type:=v1.NodeAddressType
core NodeDaemonEndpoints kubeletEndpoint:v
core NodeSystemInfo runningInUserNamespace:x swap:*
core NodeSwapStatus capacity:*
core NodeRuntimeHandler features:*
core NodeRuntimeHandlerFeatures recursiveReadOnlyMounts:* userNamespaces:*
core NodeFeatures supplementalGroupsPolicy:*
core ContainerImage names:!
core AttachedVolume name:=v1.UniqueVolumeName
core NodeConfigSource configMap:*
core NodeConfigStatus assigned:* active:* lastKnownGood:*
core ConfigMapNodeConfigSource uid:=types.UID
core NodeSelector @:atomic
core NodeSelectorTerm @:atomic
core NodeSelectorRequirement operator:=v1.NodeSelectorOperator
core ConfigMap metadata:v immutable:*
core ServiceAccount metadata:v secrets:map[name],merge[name] automountServiceAccountToken:*
core Binding metadata:v target:v
core Event metadata:v involvedObject:v source:v firstTimestamp:! lastTimestamp:! eventTime:! series:* related:* reportingComponent:! reportingInstance:!
core EventSeries lastObservedTime:!
core Pod metadata:v spec:v status:v
core PodTemplateSpec metadata:v spec:v
core PodSpec evictionResponders:x containers:map[name],merge[name] initContainers:map[name],merge[name] ephemeralContainers:map[name],merge[name] volumes:map[name],merge[name],keys hostAliases:map[ip],merge[ip] imagePullSecrets:map[name],merge[name] resourceClaims:map[name],merge[name],keys schedulingGates:map[name],merge[name] topologySpreadConstraints:map[topologyKey;whenUnsatisfiable],merge[topologyKey] nodeSelector:atomic overhead:=v1.ResourceList terminationGracePeriodSeconds:* activeDeadlineSeconds:* automountServiceAccountToken:* shareProcessNamespace:* priority:* runtimeClassName:* enableServiceLinks:* preemptionPolicy:*,=v1.PreemptionPolicy setHostnameAsFQDN:* hostUsers:* hostnameOverride:* restartPolicy:=v1.RestartPolicy dnsPolicy:=v1.DNSPolicy securityContext:* affinity:* dnsConfig:* os:* resources:* schedulingGroup:*
core PodStatus volumeHealth:x phase:=v1.PodPhase conditions:map[type],merge[type] hostIPs:merge[ip] podIPs:map[ip],merge[ip] startTime:* qosClass:=v1.PodQOSClass resize:=v1.PodResizeStatus resourceClaimStatuses:map[name],merge[name],keys allocatedResources:=v1.ResourceList resources:* extendedResourceClaimStatus:*
core PodResourceClaimStatus resourceClaimName:*
core PodCondition type:=v1.PodConditionType status:=v1.ConditionStatus lastProbeTime:! lastTransitionTime:!
core PodOS name:=v1.OSName
core PodReadinessGate conditionType:=v1.PodConditionType
core PodResourceClaim resourceClaimName:* resourceClaimTemplateName:*
core PodDNSConfigOption value:*
core PodSecurityContext seLinuxOptions:* windowsOptions:* runAsUser:* runAsGroup:* runAsNonRoot:* fsGroup:* fsGroupChangePolicy:*,=v1.PodFSGroupChangePolicy seccompProfile:* appArmorProfile:* supplementalGroupsPolicy:*,=v1.SupplementalGroupsPolicy seLinuxChangePolicy:*,=v1.PodSELinuxChangePolicy
core SecurityContext capabilities:* privileged:* seLinuxOptions:* windowsOptions:* runAsUser:* runAsGroup:* runAsNonRoot:* readOnlyRootFilesystem:* allowPrivilegeEscalation:* procMount:*,=v1.ProcMountType seccompProfile:* appArmorProfile:*
core Capabilities add:=v1.Capability drop:=v1.Capability
core SeccompProfile type:=v1.SeccompProfileType localhostProfile:*
core AppArmorProfile type:=v1.AppArmorProfileType localhostProfile:*
core WindowsSecurityContextOptions gmsaCredentialSpecName:* gmsaCredentialSpec:* runAsUserName:* hostProcess:*
core Toleration operator:=v1.TolerationOperator effect:=v1.TaintEffect tolerationSeconds:*
core TopologySpreadConstraint whenUnsatisfiable:=v1.UnsatisfiableConstraintAction labelSelector:* minDomains:* nodeAffinityPolicy:*,=v1.NodeInclusionPolicy nodeTaintsPolicy:*,=v1.NodeInclusionPolicy
core Affinity nodeAffinity:* podAffinity:* podAntiAffinity:*
core NodeAffinity requiredDuringSchedulingIgnoredDuringExecution:*
core PreferredSchedulingTerm preference:v
core WeightedPodAffinityTerm podAffinityTerm:v
core PodAffinityTerm labelSelector:* namespaceSelector:*
core Container ports:map[containerPort;protocol],merge[containerPort] env:map[name],merge[name] volumeMounts:map[mountPath],merge[mountPath] volumeDevices:map[devicePath],merge[devicePath] resources:v restartPolicy:*,=v1.ContainerRestartPolicy livenessProbe:* readinessProbe:* startupProbe:* lifecycle:* securityContext:* terminationMessagePolicy:=v1.TerminationMessagePolicy imagePullPolicy:=v1.PullPolicy
core EphemeralContainer ports:map[containerPort;protocol],merge[containerPort] env:map[name],merge[name] volumeMounts:map[mountPath],merge[mountPath] volumeDevices:map[devicePath],merge[devicePath] resources:v restartPolicy:*,=v1.ContainerRestartPolicy livenessProbe:* readinessProbe:* startupProbe:* lifecycle:* securityContext:* terminationMessagePolicy:=v1.TerminationMessagePolicy imagePullPolicy:=v1.PullPolicy
core ContainerPort protocol:=v1.Protocol,default[TCP]
core ContainerResizePolicy resourceName:=v1.ResourceName restartPolicy:=v1.ResourceResizeRestartPolicy
core ContainerRestartRule exitCodes:*
core ContainerStatus state:v lastState:v started:* allocatedResources:=v1.ResourceList resources:* volumeMounts:map[mountPath],merge[mountPath] user:* allocatedResourcesStatus:map[name],merge[name] stopSignal:*,=v1.Signal
core ContainerUser linux:*
core ContainerState waiting:* running:* terminated:*
core ContainerStateRunning startedAt:!
core ContainerStateTerminated startedAt:! finishedAt:!
core EnvVar valueFrom:*
core EnvVarSource fieldRef:* resourceFieldRef:* configMapKeyRef:* secretKeyRef:* fileKeyRef:*
core ObjectFieldSelector @:atomic
core ResourceFieldSelector @:atomic divisor:!
core ConfigMapKeySelector @:atomic optional:*
core SecretKeySelector @:atomic optional:*
core FileKeySelector @:atomic optional:*
core EnvFromSource configMapRef:* secretRef:*
core ConfigMapEnvSource optional:*
core SecretEnvSource optional:*
core ResourceRequirements limits:=v1.ResourceList requests:=v1.ResourceList claims:map[name]
core VolumeResourceRequirements limits:=v1.ResourceList requests:=v1.ResourceList
core Probe exec:* httpGet:* tcpSocket:* grpc:* terminationGracePeriodSeconds:*
core GRPCAction mode:x service:*
core HTTPGetAction protocol:x scheme:=v1.URIScheme
core Lifecycle postStart:* preStop:* stopSignal:*,=v1.Signal
core LifecycleHandler exec:* httpGet:* tcpSocket:* sleep:*
core VolumeMount bindMountOptions:x mountPropagation:*,=v1.MountPropagationMode recursiveReadOnly:*,=v1.RecursiveReadOnlyMode
core VolumeMountStatus recursiveReadOnly:*,=v1.RecursiveReadOnlyMode
core Volume awsElasticBlockStore:* azureDisk:* azureFile:* cephfs:* cinder:* configMap:* csi:* downwardAPI:* emptyDir:* ephemeral:* fc:* flexVolume:* flocker:* gcePersistentDisk:* gitRepo:* glusterfs:* hostPath:* image:* iscsi:* nfs:* persistentVolumeClaim:* photonPersistentDisk:* portworxVolume:* projected:* quobyte:* rbd:* scaleIO:* secret:* storageos:* vsphereVolume:*
core EmptyDirVolumeSource mode:x medium:=v1.StorageMedium sizeLimit:*
core HostPathVolumeSource type:*,=v1.HostPathType
core SecretVolumeSource defaultUser:x defaultMode:* optional:*
core ConfigMapVolumeSource defaultUser:x defaultMode:* optional:*
core DownwardAPIVolumeSource defaultMode:*
core DownwardAPIVolumeFile fieldRef:* resourceFieldRef:* mode:*
core ProjectedVolumeSource defaultMode:*
core VolumeProjection secret:* configMap:* downwardAPI:* serviceAccountToken:* clusterTrustBundle:* podCertificate:*
core SecretProjection optional:*
core ConfigMapProjection optional:*
core ClusterTrustBundleProjection name:* signerName:* labelSelector:* optional:*
core PodCertificateProjection maxExpirationSeconds:*
core ServiceAccountTokenProjection expirationSeconds:*
core KeyToPath user:x mode:*
core CSIVolumeSource readOnly:* fsType:* nodePublishSecretRef:*
core EphemeralVolumeSource volumeClaimTemplate:*
core PersistentVolumeClaimTemplate metadata:v spec:v
core PersistentVolumeClaimSpec accessModes:=v1.PersistentVolumeAccessMode selector:* resources:v storageClassName:* volumeMode:*,=v1.PersistentVolumeMode dataSource:* dataSourceRef:* volumeAttributesClassName:*
core TypedLocalObjectReference @:atomic apiGroup:*
core TypedObjectReference apiGroup:* namespace:*
core ISCSIVolumeSource initiatorName:* secretRef:*
core FCVolumeSource lun:*
core AzureDiskVolumeSource cachingMode:*,=v1.AzureDataDiskCachingMode fsType:* readOnly:* kind:*,=v1.AzureDataDiskKind
core ImageVolumeSource pullPolicy:=v1.PullPolicy
core RBDVolumeSource secretRef:*
core CephFSVolumeSource secretRef:*
core CinderVolumeSource secretRef:*
core FlexVolumeSource secretRef:*
core ScaleIOVolumeSource secretRef:-
core StorageOSVolumeSource secretRef:*
coordination Lease metadata:v spec:v
coordination LeaseSpec holderIdentity:* leaseDurationSeconds:* acquireTime:* renewTime:* leaseTransitions:* strategy:*,=v1.CoordinatedLeaseStrategy preferredHolder:*
discovery EndpointSlice metadata:v ports:! addressType:=v1.AddressType endpoints:!
discovery Endpoint addresses:set conditions:v hostname:* targetRef:* nodeName:* zone:* hints:*
discovery EndpointConditions ready:* serving:* terminating:*
discovery EndpointPort @:atomic name:* protocol:*,=v1.Protocol port:* appProtocol:*
events Event metadata:v series:* related:* regarding:v deprecatedSource:v deprecatedFirstTimestamp:! deprecatedLastTimestamp:!
networking ServiceCIDR metadata:v spec:v status:v
networking ServiceCIDRSpec cidrs:*
networking ServiceCIDRStatus conditions:map[type],merge[type]
networking IPAddress metadata:v spec:v
networking ParentReference resource:- name:-
networking IPAddressSpec parentRef:*,-
apps Deployment metadata:v spec:v status:v
apps DeploymentSpec replicas:* selector:* template:v strategy:v,keys revisionHistoryLimit:* progressDeadlineSeconds:*
apps DeploymentStrategy type:=v1.DeploymentStrategyType rollingUpdate:*
apps RollingUpdateDeployment maxUnavailable:* maxSurge:*
apps DeploymentStatus conditions:map[type],merge[type] collisionCount:* terminatingReplicas:*
apps DeploymentCondition type:=v1.DeploymentConditionType status:=v1.ConditionStatus lastUpdateTime:! lastTransitionTime:!
apps ReplicaSet metadata:v spec:v status:v
apps ReplicaSetSpec replicas:* selector:* template:v
apps ReplicaSetStatus conditions:map[type],merge[type] terminatingReplicas:*
apps ReplicaSetCondition type:=v1.ReplicaSetConditionType status:=v1.ConditionStatus lastTransitionTime:!
autoscaling Scale metadata:v spec:v status:v
core Secret metadata:v immutable:* type:=v1.SecretType
policy Eviction metadata:v deleteOptions:*
authentication SelfSubjectReview metadata:v status:v
authentication SelfSubjectReviewStatus userInfo:v
authentication TokenReview metadata:v spec:v status:v
authentication TokenReviewStatus user:v
authorization LocalSubjectAccessReview metadata:v spec:v status:v
authorization SelfSubjectAccessReview metadata:v spec:v status:v
authorization SelfSubjectRulesReview metadata:v spec:v status:v
authorization SubjectAccessReview metadata:v spec:v status:v
meta FieldSelectorRequirement operator:=v1.FieldSelectorOperator
service-control-plane NodePort metadata:v spec:v
service-control-plane NodePortSpec parentRef:v protocols:set
service-control-plane NodePortRange metadata:v spec:v
service-control-plane NodePortRangeSpec lowerBand:*
service-control-plane NodePortRangeStatus conditions:map[type]
service-control-plane ServicePool metadata:v spec:v
service-control-plane ServicePoolSpecLowerBand addresses:* nodePorts:*
service-control-plane ServicePoolStatus conditions:map[type]
";
