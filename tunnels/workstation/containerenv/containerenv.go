// Package containerenv computes the environment and the files of a process that replaces a container,
// from those that the container has in its pod. It is pure: the pod template and the objects that
// it names go in, variables and files come out.
//
// # What differs from a pod
//
// There is no pod, so fields of the downward API have these values:
//
//	metadata.name                 Input.Name
//	metadata.namespace            that of the baseline
//	metadata.uid                  Input.UID
//	metadata.labels, annotations  those of the pod template
//	spec.nodeName                 Input.Node
//	spec.serviceAccountName       that of the pod template, or default
//	status.podIP, status.hostIP   127.0.0.1, also as the only one of podIPs and hostIPs
//	limits of a container         its own, else Input.CPU and Input.Memory, if known
//
// The token of a service account is never among the files: credentials issued for a pod do not
// leave the cluster. Notes name the token and each volume that is not copied. Variables of
// Services (FOO_SERVICE_HOST) and those of the image are not included.
//
// Variables from which loaders, shells and interpreters run code (unsafeenv) are withheld, whatever
// object of the cluster they are from. Those of Input.Extra and Input.Allow are not. Values with a NUL byte
// or that are not UTF-8 are left out too (protos/crd/variable), and Notes names them.
//
// # Additions of the sandbox
//
// Variables of the sandbox are merged into those of the container as into a fork's
// (Input.Customize). Its files replace those of volumes, and variables that name one of them are
// adapted (Result.Below).
package containerenv

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/eventbus/lists"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/protos/crd/variable"
)

// ResourcesFolder is the folder of the outputs of the sandbox's resources, with a folder for
// each resource and a file for each output.
const ResourcesFolder = "/signadot/resources"

// Input is the input of Resolve.
type Input struct {
	// Template is the pod template of the baseline, and Namespace its namespace.
	Template  corev1.PodTemplateSpec
	Namespace string
	// Container is the container that the process replaces; empty: the main one.
	Container string
	// ConfigMaps and Secrets are those of the namespace that were read, by their names; Unread
	// has the reason why others were not, by kind/name, such as Secret/db.
	ConfigMaps map[string]*corev1.ConfigMap
	Secrets    map[string]*corev1.Secret
	Unread     map[string]string
	// ServiceAccount is that of the pods; nil if it is unknown.
	ServiceAccount *corev1.ServiceAccount

	// Name, UID and Node are values for the pod's fields; CPU and Memory are the size of its
	// machine, in millicores and bytes.
	Name, UID, Node string
	CPU, Memory     int64

	// Sandbox and RoutingKey are the sandbox's; empty: neither has a variable.
	Sandbox, RoutingKey string
	// Outputs are those of the sandbox's resources, by resource and output.
	Outputs map[string]map[string][]byte
	// OutputSecrets are the Secrets with these outputs, by name, and the resource of each.
	OutputSecrets map[string]string
	// Extra are further variables, which override others.
	Extra []Extra
	// Allow are names of variables that are copied although they run code.
	Allow []string

	// own are the variables that Customize set, by container/name, and files its files.
	own   map[string]bool
	files []crdv1.LocalFile
}

// Extra is a variable that the user requested.
type Extra struct {
	// Name is that of the variable, and Value its value if it is not an output.
	Name, Value string
	// Resource and Output name the output of a resource; empty: Value is used.
	Resource, Output string
}

// Var is a variable.
type Var struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	// Source describes where the value is from.
	Source string `json:"source"`
}

// File is a file, or an empty folder.
type File struct {
	// Path is absolute, as the container sees it.
	Path string
	// Data is its content; nil of a folder.
	Data   []byte
	Folder bool
	// Mode is its permissions.
	Mode uint32
	// Source describes where it is from.
	Source string
}

// Result are the environment and files of a process.
type Result struct {
	// Container is the one that the process replaces.
	Container string
	// Env is in the order of their names, each name once.
	Env []Var
	// Withheld are the names of variables that were left out of Env because they run code
	// (unsafeenv), sorted.
	Withheld []string
	// Files are in the order of their paths, each path once.
	Files []File
	// Mounts are the paths at which volumes are, and files of the sandbox.
	Mounts []string
	// Notes are sentences about differences from the pod.
	Notes []string
}

// Needed are the objects of the namespace that have to be read.
type Needed struct {
	ConfigMaps, Secrets []string
	ServiceAccount      string
}

// Main returns the selected container of a template. The error names the containers.
func Main(t corev1.PodTemplateSpec, name string) (*corev1.Container, error) {
	all := t.Spec.Containers
	there := strings.Join(names(t), ", ")
	asked := cmp.Or(name, t.Annotations["kubectl.kubernetes.io/default-container"])
	if i := slices.IndexFunc(all, func(c corev1.Container) bool { return c.Name == asked }); i >= 0 {
		return &all[i], nil
	}
	switch {
	case name != "":
		return nil, fmt.Errorf("the baseline has no container %q; it has %s", name, there)
	case len(all) == 1:
		return &all[0], nil
	case len(all) == 0:
		return nil, fmt.Errorf("the baseline has no containers")
	}
	return nil, fmt.Errorf("the baseline has several containers, %s: select one with --container", there)
}

// Needs returns the objects that the environment and the files of a process depend on.
func Needs(in Input) (Needed, error) {
	t := in.Template
	c, err := Main(t, in.Container)
	if err != nil {
		return Needed{}, err
	}
	configMaps, secrets := map[string]bool{}, map[string]bool{}
	for _, from := range c.EnvFrom {
		if from.ConfigMapRef != nil {
			configMaps[from.ConfigMapRef.Name] = true
		}
		if from.SecretRef != nil {
			secrets[from.SecretRef.Name] = true
		}
	}
	from := lists.Map(c.Env, func(e corev1.EnvVar) *corev1.EnvVarSource { return e.ValueFrom })
	from = append(from, lists.Map(in.files, func(f crdv1.LocalFile) *corev1.EnvVarSource { return f.ValueFrom })...)
	for _, f := range from {
		if f != nil && f.ConfigMapKeyRef != nil {
			configMaps[f.ConfigMapKeyRef.Name] = true
		}
		if f != nil && f.SecretKeyRef != nil {
			secrets[f.SecretKeyRef.Name] = true
		}
	}
	for _, v := range mounted(t, c) {
		for _, p := range sources(v) {
			if p.ConfigMap != nil {
				configMaps[p.ConfigMap.Name] = true
			}
			if p.Secret != nil {
				secrets[p.Secret.Name] = true
			}
		}
	}
	return Needed{keys(configMaps), keys(secrets), serviceAccount(t)}, nil
}

func serviceAccount(t corev1.PodTemplateSpec) string {
	return cmp.Or(t.Spec.ServiceAccountName, "default")
}

// mounted returns the volumes that a container mounts.
func mounted(t corev1.PodTemplateSpec, c *corev1.Container) []corev1.Volume {
	return lists.Filter(t.Spec.Volumes, func(v corev1.Volume) bool {
		return slices.ContainsFunc(c.VolumeMounts, func(m corev1.VolumeMount) bool { return m.Name == v.Name })
	})
}

func keys(set map[string]bool) []string {
	delete(set, "")
	return slices.Sorted(maps.Keys(set))
}

// Resolve returns the environment and files of a process. The error names the objects that are
// missing, which would keep the pods of the baseline from starting too, or that may not be read.
func Resolve(in Input) (Result, error) {
	c, err := Main(in.Template, in.Container)
	if err != nil {
		return Result{}, err
	}
	r := &resolution{in: in, container: c, env: map[string]Var{}, seen: map[string]bool{}, files: map[string]File{}}
	r.environment()
	r.volumes()
	r.ownFiles()
	r.token()
	if len(r.problems) > 0 {
		return Result{}, fmt.Errorf("%s", strings.Join(r.problems, "\n"))
	}
	out := Result{Container: c.Name, Notes: r.notes, Mounts: r.mounts}
	for _, name := range slices.Sorted(maps.Keys(r.env)) {
		if wrong := variable.Describe([]byte(r.env[name].Value)); wrong != "" {
			out.Notes = append(out.Notes, fmt.Sprintf("Variable %s is left out: its value (%s) %s, which no variable can have, in a pod neither. Take it as a file, or encode it.", name, r.env[name].Source, wrong))
			continue
		}
		if r.withholds(r.env[name]) {
			out.Withheld = append(out.Withheld, name)
			continue
		}
		out.Env = append(out.Env, r.env[name])
	}
	for _, path := range slices.Sorted(maps.Keys(r.files)) {
		out.Files = append(out.Files, r.files[path])
	}
	slices.Sort(out.Mounts)
	return out, nil
}

// resolution is one call of Resolve.
type resolution struct {
	in        Input
	container *corev1.Container
	env       map[string]Var
	seen      map[string]bool // variables of the container's list so far
	files     map[string]File
	mounts    []string
	notes     []string
	problems  []string
}

func (r *resolution) note(format string, values ...any) {
	r.notes = append(r.notes, fmt.Sprintf(format, values...))
}

func (r *resolution) problem(format string, values ...any) {
	if p := fmt.Sprintf(format, values...); !slices.Contains(r.problems, p) {
		r.problems = append(r.problems, p)
	}
}

// missing adds a problem for an object that does not exist or was not read.
func (r *resolution) missing(kind, name, what string) {
	if why := r.in.Unread[kind+"/"+name]; why != "" {
		r.problem("%s needs %s %s/%s, which was not read: %s", what, kind, r.in.Namespace, name, why)
		return
	}
	r.problem("%s needs %s %s/%s, which is not there", what, kind, r.in.Namespace, name)
}

// data returns the content of a ConfigMap or a Secret; false if it was not read.
func (r *resolution) data(kind, name string) (map[string][]byte, bool) {
	out := map[string][]byte{}
	if kind == "Secret" {
		s := r.in.Secrets[name]
		if s == nil {
			return nil, false
		}
		maps.Copy(out, s.Data)
		return out, true
	}
	m := r.in.ConfigMaps[name]
	if m == nil {
		return nil, false
	}
	maps.Copy(out, m.BinaryData)
	for k, v := range m.Data {
		out[k] = []byte(v)
	}
	return out, true
}
