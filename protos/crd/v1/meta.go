package v1

import "time"

// Names that we leave on objects so that they can be found, explained and
// removed again. Identity is carried here and in spec and status, never in the
// name of an object: names are cut where they are too long (see ObjectName).
const (
	// FieldManager is the field manager of all server-side apply requests, which distinguishes
	// the operator's fields from those of others.
	FieldManager = "switchyard"

	// Finalizer keeps an object until the objects that were created for it are deleted.
	Finalizer = "signadot.com/switchyard"

	// AnnotationRoutingKey is the routing key that an object belongs to. It is
	// on RoutingConfigs, ForkedWorkloads, and the Deployments and Services of
	// forks. An annotation, not a label: a key may be any text. A RoutingConfig
	// without it has metadata.name as its key.
	AnnotationRoutingKey = "signadot.com/routing-key"

	// AnnotationSandboxName is the sandbox as its users know it: spec.name of
	// the SignadotSandbox, else its metadata.name. Forked pods find the same in
	// SIGNADOT_SANDBOX_NAME, and message consumers compare themselves with it.
	AnnotationSandboxName = "signadot.com/sandbox-name"

	// AnnotationBaseline is the baseline that an object replaces, as kind/namespace/name.
	AnnotationBaseline = "signadot.com/baseline"

	// AnnotationBaselineService, on a Service that was created for a member, is the baseline
	// Service that it replaces, as namespace/name.
	AnnotationBaselineService = "signadot.com/baseline-service"

	// LabelSandbox is metadata.name of the SignadotSandbox that an object was
	// made for, made safe with LabelValue.
	LabelSandbox = "signadot.com/sandbox"

	// LabelRouteGroup is metadata.name of the SignadotRouteGroup that a RoutingConfig
	// was made for, made safe with LabelValue.
	LabelRouteGroup = "signadot.com/route-group"

	// LabelForkedWorkload is the name of the ForkedWorkload that a pod, a
	// Deployment or a Service was made for, made safe with LabelValue. Services
	// of forks select by it; names of ForkedWorkloads are unique in their
	// namespace, so it selects the pods of one fork only.
	LabelForkedWorkload = "signadot.com/forked-workload"

	// LabelExternalWorkload is the name of the SignadotExternalWorkload that a
	// Service, an EndpointSlice or an Endpoints object was made for, made safe with
	// LabelValue.
	LabelExternalWorkload = "signadot.com/external-workload"

	// LabelVirtualWorkload is the name of the VirtualWorkload that a Service or an EndpointSlice
	// was made for, made safe with LabelValue.
	LabelVirtualWorkload = "signadot.com/virtual-workload"

	// AnnotationOnBehalf, on an object that the operator created for another one, is that
	// object with its generation and its writer, and the chain of owners through which it was
	// created, as JSON: the cause that is recorded in the routing log.
	AnnotationOnBehalf = "signadot.com/on-behalf-of"

	// AnnotationWaitsFor, on a ForkedWorkload, names for people the objects that must be ready
	// before its fork can start, such as "Resource db". While it is present and not empty no
	// fork is started, and a running one is left unchanged; everything else is done, so
	// requests with the key fail visibly instead of reaching the baseline.
	AnnotationWaitsFor = "signadot.com/waits-for"

	// AnnotationInject, on a pod template, asks for a DevMesh sidecar when it is
	// "true".
	AnnotationInject = "sidecar.signadot.com/inject"

	// AnnotationProcessed, on a pod, is set when the injecting webhook has handled it.
	AnnotationProcessed = "sidecar.signadot.com/processed"

	// LabelInjected, on a pod, is set when the injecting webhook has added a DevMesh sidecar.
	// The manager caches only pods that carry it; those that an earlier version injected do
	// not, and are outdated.
	LabelInjected = "sidecar.signadot.com/injected"

	// AnnotationIgnore, on a VirtualService or a route, asks us to leave it alone
	// when it is "true".
	AnnotationIgnore = "routing.signadot.com/ignore"

	// AnnotationLogLevel, on a pod template, is how much the sidecar logs.
	AnnotationLogLevel = "signadot.com/log-level"

	// AnnotationDescription, on a SignadotSandbox, is a description for people.
	AnnotationDescription = "signadot.com/description"

	// AnnotationLabels, on a SignadotSandbox, has the labels of its specification as a JSON
	// object: their keys and values may be what those of Kubernetes may not.
	AnnotationLabels = "signadot.com/labels"

	// AnnotationTTL, on a SignadotSandbox, is how long it lives, such as 2d, and
	// AnnotationTTLFrom from when: createdAt, which is meant without it, or updatedAt.
	AnnotationTTL     = "signadot.com/ttl"
	AnnotationTTLFrom = "signadot.com/ttl-offset-from"

	// AnnotationUpdatedAt, on a SignadotSandbox, is when its specification was last applied,
	// in RFC 3339.
	AnnotationUpdatedAt = "signadot.com/updated-at"

	// AnnotationEndpoints, on a SignadotSandbox, has its endpoints as a JSON list of name and
	// target.
	AnnotationEndpoints = "signadot.com/endpoints"

	// AnnotationPlugins, on a SignadotSandbox, has the plugins of its resources with their
	// versions, as a JSON object by the name of the resource.
	AnnotationPlugins = "signadot.com/resource-plugins"

	// AnnotationLocal, on a SignadotSandbox, has what its external workloads have on a
	// workstation beside what their baselines have, as a JSON object of LocalWorkload by the name
	// of the workload. Secrets and ConfigMaps are named, and read by who runs the workload. Nothing
	// in the cluster acts on it.
	AnnotationLocal = "signadot.com/local"

	// AnnotationSpecification, on a SignadotSandbox or a SignadotRouteGroup, has the published
	// specification that the object was compiled from, and a digest of the result, as a
	// JSON object. The command line shows it. Nothing in the cluster acts on it.
	AnnotationSpecification = "signadot.com/specification"

	// AnnotationMachine, on a SignadotSandbox, is the workstation on which its local workloads
	// run. A control plane sets it to the devbox of the specification.
	AnnotationMachine = "switchyard.dev/machine"

	// AnnotationRetry, on a Resource or a SignadotObjectLifecycleMethods, requests another
	// attempt of the units that failed or were lost. Each value is used once: use the current
	// time.
	AnnotationRetry = "signadot.com/retry"

	// AnnotationGiveUp, on a Resource or a SignadotObjectLifecycleMethods that is being
	// deleted, lets it go when it is "true" although its postStop units have not run.
	AnnotationGiveUp = "signadot.com/give-up"

	// AnnotationRetryLost, on the pod template of a unit, allows with "true" that its script is
	// run again when it is unknown whether it ended.
	AnnotationRetryLost = "signadot.com/retry-lost"

	// AnnotationAttempt, on the pod of a unit, is the number of the attempt, from 1.
	AnnotationAttempt = "signadot.com/attempt"

	// LabelUnit, on the pod of a unit, is the name of the unit, and LabelLifecycle that of the
	// SignadotObjectLifecycleMethods, made safe with LabelValue.
	LabelUnit      = "signadot.com/unit"
	LabelLifecycle = "signadot.com/lifecycle-methods"

	// LabelResource, on the pod of a unit and on what a Resource has made, is metadata.name of
	// the Resource, made safe with LabelValue.
	LabelResource = "signadot.com/resource"

	// AnnotationRetries, on a Job, is how many times its script may run again after an execution with an
	// outcome that cannot be proved, or that ended with its pod; 0 without it.
	AnnotationRetries = "switchyard.dev/retries"

	// AnnotationJobSequence, on a Job, is its place in the queue of its group, as a control plane
	// numbers it. Jobs without it are ordered by creation.
	AnnotationJobSequence = "switchyard.dev/job-sequence"

	// SmartTestsNamespace has the runner groups of Smart Tests, which control planes write in their own name alone, and
	// SmartTestsImage is the image in their specification: the operator replaces it by its own.
	SmartTestsNamespace = "signadot-tests"
	SmartTestsImage     = "switchyard.dev/smart-test"

	// JobUnanswered is how long after a write without a response a control plane writes a Job again that does not exist.
	// The operator keeps ended Jobs that it may not have read for longer.
	JobUnanswered = 12 * time.Hour

	// MostWaitingJobs is how many waiting Jobs of a runner group a control plane has in a cluster.
	MostWaitingJobs = 1000

	// AnnotationOrganisation, on a Job that a control plane manages, is the name of its organisation, for
	// the environment of the script.
	AnnotationOrganisation = "switchyard.dev/organisation"
)
