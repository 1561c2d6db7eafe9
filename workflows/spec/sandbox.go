package spec

// Sandbox is the file of a sandbox.
type Sandbox struct {
	// Name is unique in the cluster.
	Name string `json:"name"`
	// Spec is the specification.
	Spec SandboxSpec `json:"spec"`
}

// SandboxSpec is the specification of a sandbox.
type SandboxSpec struct {
	// Cluster is the name of the cluster in a control plane.
	Cluster string `json:"cluster"`
	// Description is for people.
	Description string `json:"description"`
	// Labels are for people, and for route groups.
	Labels map[string]string `json:"labels"`
	// TTL is how long the sandbox lives; nil: until it is deleted.
	TTL *TTL `json:"ttl"`
	// Forks are workloads to fork.
	Forks []Fork `json:"forks"`
	// Local are workloads that run on a workstation.
	Local []Local `json:"local"`
	// Virtual are workloads without pods of their own.
	Virtual []Virtual `json:"virtual"`
	// Resources are created by resource plugins.
	Resources []Resource `json:"resources"`
	// DefaultRouteGroup has the endpoints.
	DefaultRouteGroup *RouteGroup `json:"defaultRouteGroup"`
	// Endpoints is the older form of DefaultRouteGroup.
	Endpoints []HostEndpoint `json:"endpoints"`
	// Routing has tunnels without a baseline.
	Routing *Routing `json:"routing"`
	// Middleware is applied to requests.
	Middleware []Middleware `json:"middleware"`
	// Connection binds local workloads to a workstation.
	Connection *Connection `json:"connection"`
	// LocalMachineID is the older form of Connection.
	LocalMachineID string `json:"localMachineID"`
	// DisableSandboxTrafficManager has no effect any more.
	DisableSandboxTrafficManager bool `json:"disableSandboxTrafficManager"`
}

// TTL is how long a sandbox lives.
type TTL struct {
	// Duration is a number and m, h, d or w.
	Duration string `json:"duration"`
	// OffsetFrom is createdAt or updatedAt; empty is createdAt.
	OffsetFrom string `json:"offsetFrom"`
}

// Workload names a workload of the cluster.
type Workload struct {
	// Kind is Deployment or Rollout.
	Kind string `json:"kind"`
	// Namespace is that of the workload.
	Namespace string `json:"namespace"`
	// Name is that of the workload.
	Name string `json:"name"`
}

// Fork is a workload to fork.
type Fork struct {
	// Name is unique in the sandbox; empty: that of the workload.
	Name string `json:"name"`
	// ForkOf is the baseline.
	ForkOf Workload `json:"forkOf"`
	// Customizations are the differences from the baseline.
	Customizations Customizations `json:"customizations"`
	// Endpoints is the older form of RouteGroup.
	Endpoints []ForkEndpoint `json:"endpoints"`
}

// Customizations are the differences of a fork from its baseline.
type Customizations struct {
	// Images replace those of containers.
	Images []Image `json:"images"`
	// Env is the environment of containers.
	Env []EnvVar `json:"env"`
	// Patch is applied after images and env.
	Patch *Patch `json:"patch"`
}

// Image replaces the image of a container.
type Image struct {
	// Image is the new one.
	Image string `json:"image"`
	// Container is the container with this image; empty: the main container.
	Container string `json:"container"`
}

// EnvVar is a variable of a container's environment.
type EnvVar struct {
	// Name is that of the variable.
	Name string `json:"name"`
	// Value is the value of the variable.
	Value *string `json:"value"`
	// Container is the container with this variable; empty: the main container.
	Container string `json:"container"`
	// Operation is upsert or delete; empty is upsert.
	Operation string `json:"operation"`
	// ValueFrom is the source of the value, when there is no Value.
	ValueFrom *EnvSource `json:"valueFrom"`
}

// EnvSource is the source of a variable's value: one of its fields.
type EnvSource struct {
	// Fork is another fork of the sandbox.
	Fork *ForkSource `json:"fork"`
	// Resource is an output of a resource.
	Resource *ResourceSource `json:"resource"`
	// ConfigMap and Secret are objects of the fork's namespace.
	ConfigMap *MapSource `json:"configMap"`
	// Secret is as ConfigMap.
	Secret *MapSource `json:"secret"`
}

// ForkSource is a text about another fork of the sandbox.
type ForkSource struct {
	// ForkOf is the baseline of that fork.
	ForkOf Workload `json:"forkOf"`
	// Expression is the text, with {{.Service.Host}} and {{.Service.Port}} in it.
	Expression string `json:"expression"`
}

// ResourceSource is an output of a resource.
type ResourceSource struct {
	// Name is that of the resource in the sandbox.
	Name string `json:"name"`
	// OutputKey is a create step, a dot and its output.
	OutputKey string `json:"outputKey"`
}

// MapSource is a value of a ConfigMap or a Secret.
type MapSource struct {
	// Name is that of the object.
	Name string `json:"name"`
	// Key is that of the value.
	Key string `json:"key"`
	// Optional reports whether the fork starts without it.
	Optional *bool `json:"optional"`
}

// Patch is a patch of the whole workload.
type Patch struct {
	// Type is strategic, merge or json.
	Type string `json:"type"`
	// Value is the patch, in YAML or JSON.
	Value string `json:"value"`
}

// ForkEndpoint is an endpoint of a fork, in the older form.
type ForkEndpoint struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// Port is that of the workload.
	Port int32 `json:"port"`
	// Protocol is http or grpc.
	Protocol string `json:"protocol"`
}

// HostEndpoint is an endpoint of a host, in the older form.
type HostEndpoint struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// Host is a name inside the cluster.
	Host string `json:"host"`
	// Port is that of the host.
	Port int32 `json:"port"`
	// Protocol is http or grpc.
	Protocol string `json:"protocol"`
}

// Endpoint is an address of the sandbox for users.
type Endpoint struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// Target is the destination of its requests, scheme://host:port.
	Target string `json:"target"`
}

// RouteGroup has the endpoints of a sandbox.
type RouteGroup struct {
	// Endpoints are the endpoints.
	Endpoints []Endpoint `json:"endpoints"`
}

// Local is a workload that runs on a workstation.
type Local struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// From is the baseline; the workload takes its requests.
	From Workload `json:"from"`
	// Mappings map ports of the baseline to the workstation.
	Mappings []Mapping `json:"mappings"`
	// Env is the environment of the workload on the workstation.
	Env []EnvVar `json:"env"`
	// Files are the files of the workload on the workstation.
	Files []FileOp `json:"files"`
}

// Mapping maps a port to a workstation.
type Mapping struct {
	// Port is the container port of the baseline.
	Port int32 `json:"port"`
	// ToLocal is the address at the workstation, host:port.
	ToLocal string `json:"toLocal"`
	// AppProtocol is that of the port.
	AppProtocol string `json:"appProtocol"`
}

// FileOp is a file of a workload on a workstation.
type FileOp struct {
	// Path is the path of the file.
	Path string `json:"path"`
	// Value is the content.
	Value *string `json:"value"`
	// ValueFrom is the source of the content, when there is no Value.
	ValueFrom *FileSource `json:"valueFrom"`
}

// FileSource is the source of a file's content: one of its fields.
type FileSource struct {
	// Resource is an output of a resource.
	Resource *ResourceSource `json:"resource"`
	// ConfigMap and Secret are objects of the baseline's namespace.
	ConfigMap *MapSource `json:"configMap"`
	// Secret is as ConfigMap.
	Secret *MapSource `json:"secret"`
}

// Virtual is a workload without pods of its own.
type Virtual struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// Workload is the baseline.
	Workload Workload `json:"workload"`
}

// Resource is created by a resource plugin.
type Resource struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// Plugin is a plugin, optionally with its version after @.
	Plugin string `json:"plugin"`
	// Params are the parameters of the plugin's steps.
	Params map[string]string `json:"params"`
}

// Routing has tunnels without a baseline.
type Routing struct {
	// Forwards are the tunnels.
	Forwards []Forward `json:"forwards"`
}

// Forward is a tunnel without a baseline.
type Forward struct {
	// Name is unique in the sandbox.
	Name string `json:"name"`
	// Port is its port in the cluster.
	Port int32 `json:"port"`
	// ToLocal is the address at the workstation, host:port.
	ToLocal string `json:"toLocal"`
	// AppProtocol is that of the port.
	AppProtocol string `json:"appProtocol"`
}

// Middleware is applied to requests.
type Middleware struct {
	// Name is that of the middleware.
	Name string `json:"name"`
	// Match are the workloads that have the middleware on their requests.
	Match []MiddlewareMatch `json:"match"`
	// Args are its arguments.
	Args []Argument `json:"args"`
}

// MiddlewareMatch selects workloads of the sandbox.
type MiddlewareMatch struct {
	// Workload is a pattern for their names in it.
	Workload string `json:"workload"`
}

// Argument is an argument of a middleware.
type Argument struct {
	// Name is that of the argument.
	Name string `json:"name"`
	// Value is the value of the argument.
	Value string `json:"value"`
	// ValueFrom is the source of the value, when there is no Value.
	ValueFrom *ArgSource `json:"valueFrom"`
}

// ArgSource is the source of an argument's value.
type ArgSource struct {
	// Forward is the name of a tunnel; its address is the value.
	Forward string `json:"forward"`
}

// Connection binds local workloads to a workstation.
type Connection struct {
	// DevboxID is the workstation.
	DevboxID string `json:"devboxId"`
}
