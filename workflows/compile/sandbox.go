package compile

import (
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/workflows/spec"
	"switchyard.dev/workflows/specfile"
)

// Input is the input of Sandbox.
type Input struct {
	// Sandbox is its specification.
	Sandbox spec.Sandbox
	// Plugins are the available plugins, in any order.
	Plugins []spec.Plugin
	// RoutingKey is the present key of the sandbox; empty: its name becomes the key.
	RoutingKey string
	// Pinned are the present plugins of its resources, with their versions, by the name of the
	// resource. A resource that names no version keeps its present one.
	Pinned map[string]string
}

// Output is the result of Sandbox.
type Output struct {
	// Sandbox is the object.
	Sandbox *crdv1.SignadotSandbox
	// Notes are about parts of the specification that have no effect.
	Notes specfile.Problems
}

// Limits of the API server: of annotations together, and of an object, with room for fields that
// are added later.
const (
	maxAnnotations = 256 << 10
	maxObject      = 1 << 20
)

// Sandbox compiles a sandbox. The error is specfile.Problems, with paths and without lines.
func Sandbox(in Input) (Output, error) {
	c := &compilation{Input: in, object: &crdv1.SignadotSandbox{
		TypeMeta:   metav1.TypeMeta{APIVersion: crdv1.APIVersion, Kind: crdv1.KindSandbox},
		ObjectMeta: metav1.ObjectMeta{Name: in.Sandbox.Name, Annotations: map[string]string{}},
	}}
	c.general()
	c.resources()
	c.forks()
	c.locals()
	c.virtuals()
	c.forwards()
	c.middleware()
	c.endpoints()
	c.fits()
	if c.empty() && len(c.problems) == 0 {
		c.problems.Add("spec", "has no workload, resource or endpoint, so the sandbox would be empty: give it forks, local, virtual or resources. For a route group, give match and use switchyard routegroup apply")
	}
	return Output{Sandbox: c.object, Notes: c.notes}, c.problems.OrNil()
}

// empty reports whether the specification has nothing but a name and labels.
func (c *compilation) empty() bool {
	o := c.spec()
	return len(o.Forks)+len(o.Local)+len(o.Virtual)+len(o.Resources)+len(o.Endpoints)+len(o.Middleware) == 0 && o.Routing == nil && o.DefaultRouteGroup == nil
}

// compilation is the compilation of one sandbox.
type compilation struct {
	Input
	object   *crdv1.SignadotSandbox
	problems specfile.Problems
	notes    specfile.Problems
	// members are the workloads of the sandbox, in order.
	members []workload
	// outputs are those of resources with a known plugin, by the name of the resource.
	outputs map[string][]string
}

// spec returns the specification.
func (c *compilation) spec() *spec.SandboxSpec { return &c.Sandbox.Spec }

// Names, according to the definitions of the objects.
var (
	sandboxName = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-z0-9])?$`)
	memberName  = regexp.MustCompile(`^[a-z]([a-z0-9-]*[a-zA-Z0-9])?$`)
	unitName    = regexp.MustCompile(`^[a-zA-Z]([a-zA-Z0-9-]*[a-zA-Z0-9])?$`)
)

// maxName is the maximum length of such a name.
const maxName = 30

// named checks a name that the API server validates by a rule.
func (c *compilation) named(path, name string, rule *regexp.Regexp) {
	checkName(&c.problems, path, name, rule)
}

// checkName adds a problem for a name that does not match the rule.
func checkName(problems *specfile.Problems, path, name string, rule *regexp.Regexp) {
	letters := "letters"
	if rule != unitName {
		letters = "lower-case letters"
	}
	switch {
	case name == "":
		problems.Add(path, "is missing")
	case len(name) > maxName:
		problems.Add(path, "is %q, of %d characters; the limit is %d", name, len(name), maxName)
	case !rule.MatchString(name):
		problems.Add(path, "is %q; a name has %s, digits and -, begins with a letter and does not end with -", name, letters)
	}
}

// general compiles the fields of the sandbox itself.
func (c *compilation) general() {
	s, o := c.spec(), c.object
	c.named("name", c.Sandbox.Name, sandboxName)
	o.Spec.Name, o.Spec.ID = c.Sandbox.Name, c.Sandbox.Name
	if c.RoutingKey != "" {
		o.Spec.ID = c.RoutingKey
	}
	o.Spec.ClusterName = s.Cluster
	o.Spec.DisableSandboxTrafficManager = s.DisableSandboxTrafficManager
	if s.Description != "" {
		o.Annotations[crdv1.AnnotationDescription] = s.Description
	}
	for key := range s.Labels {
		if key == "" || len(key) > maxLabelKey || !labelKey.MatchString(key) {
			c.problems.Add("spec.labels", "has the key %q; a key has at most %d letters, digits, -, _, . and /", key, maxLabelKey)
		}
	}
	if len(s.Labels) > 0 {
		o.Annotations[crdv1.AnnotationLabels] = written(s.Labels)
	}
	c.lifetime()
	if s.Connection != nil && s.Connection.DevboxID != "" {
		c.notes.Add("spec.connection", "has no effect; without a control plane no workstation is bound to a sandbox")
	}
	if s.LocalMachineID != "" {
		c.notes.Add("spec.localMachineID", "has no effect; without a control plane no workstation is bound to a sandbox")
	}
}

// maxLabelKey is the maximum length of a label's key.
const maxLabelKey = 255

var labelKey = regexp.MustCompile(`^[a-zA-Z0-9_./-]+$`)

// lifetime compiles the lifetime of the sandbox.
func (c *compilation) lifetime() {
	ttl := c.spec().TTL
	if ttl == nil {
		return
	}
	if _, err := spec.Lifetime(ttl.Duration); err != nil {
		c.problems.Add("spec.ttl.duration", "%v", err)
	}
	switch ttl.OffsetFrom {
	case "", spec.FromCreated:
	case spec.FromUpdated:
		c.object.Annotations[crdv1.AnnotationTTLFrom] = spec.FromUpdated
	default:
		c.problems.Add("spec.ttl.offsetFrom", "is %q%s", ttl.OffsetFrom, specfile.Suggest(ttl.OffsetFrom, []string{spec.FromCreated, spec.FromUpdated}))
	}
	c.object.Annotations[crdv1.AnnotationTTL] = ttl.Duration
}

// fits checks the size limits of the API server.
func (c *compilation) fits() {
	sum := 0
	for key, value := range c.object.Annotations {
		sum += len(key) + len(value)
	}
	if sum > maxAnnotations {
		c.problems.Add("spec", "has %d bytes of description, labels, endpoints, and env and files of local; the limit is %d", sum, maxAnnotations)
	}
	if text, err := json.Marshal(c.object); err != nil {
		c.problems.Add("spec", "cannot be written: %v", err)
	} else if len(text) > maxObject {
		c.problems.Add("spec", "makes an object of %d bytes; the limit is %d, so make patches and scripts smaller", len(text), maxObject)
	}
}

// written returns a value as JSON; every value here can be encoded.
func written(value any) string {
	text, err := json.Marshal(value)
	if err != nil {
		return fmt.Sprint(value)
	}
	return string(text)
}

// escape returns a text that is preserved in a patch with variables.
func escape(text string) string { return strings.ReplaceAll(text, "{{", `{{ "{{" }}`) }
