// Package clusterconfig reads the operator's configuration: cluster_config.yaml from a file, or from
// the cluster in which an operator runs.
package clusterconfig

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"switchyard.dev/reconcilers/admission"
	"switchyard.dev/reconcilers/externalworkload"
	"switchyard.dev/reconcilers/fork/power"
	"switchyard.dev/reconcilers/meshes/gatewayadapter"
	"switchyard.dev/reconcilers/meshes/istioadapter"
	"switchyard.dev/reconcilers/policies"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobpod"
	"switchyard.dev/xds/routingkey"
)

// Cluster has the settings of cluster_config.yaml that the manager uses.
type Cluster struct {
	// AllowedNamespaces are those in which the operator may work, its own among
	// them; empty means all.
	AllowedNamespaces []string
	// CustomHeaders are further request headers that hold a routing key.
	CustomHeaders []string
	// IptablesMode is with which part of the kernel pods' connections are
	// redirected.
	IptablesMode spec.Mode
	// PatchPowers are those that patches may give a fork though its baseline has them not.
	PatchPowers power.Powers
	// AskAuthors enables the check of the rights of authors, and Limits bound the requests of one
	// object.
	AskAuthors bool
	Limits     admission.Limits
	// Delegates are accounts that write objects on behalf of other users.
	Delegates admission.Delegates
	// ExternalWorkloads define when a tunnel counts as connected.
	ExternalWorkloads externalworkload.Limits
	// Istio reports whether requests are routed by VirtualServices, and GatewayAPI whether by
	// HTTPRoutes and GRPCRoutes.
	Istio      istioadapter.Settings
	GatewayAPI gatewayadapter.Settings
	// Policies has the action if a policy does not apply to objects that the operator creates.
	Policies policies.Settings
	// Units configure the units of Resources.
	Units Units
	// Runners configure the pods that run jobs.
	Runners Runners
	// TrafficManager reports whether forks get a container that records requests, and TrafficCapture whether
	// captures are possible.
	TrafficManager, TrafficCapture bool
}

// Bucket names a bucket of S3. An empty Bucket is none, and an empty Endpoint that of Amazon.
type Bucket struct {
	Bucket   string `json:"bucket"`
	Endpoint string `json:"endpoint"`
	Region   string `json:"region"`
}

// Runners are the settings of the pods that run jobs, with 0 for the default.
type Runners struct {
	// Allow are permissions of pods beyond the common bound.
	Allow execunit.Powers
	// KeepResults is how long a pod keeps results that are not read, ArtifactBytes how many bytes of artifacts.
	KeepResults   time.Duration
	ArtifactBytes int64
	// KeptPods is how many pods of a group are kept for their results; 0: as many as it has replicas.
	KeptPods int
	// KeepJobs is how long finished Jobs are kept, MaxJobs how many of a group.
	KeepJobs time.Duration
	MaxJobs  int
	// S3 is the bucket for what jobs leave.
	S3 Bucket
	// Redirect: connections of scripts are redirected where pods may do that.
	Redirect bool
	// Labels and Annotations are those by which the mesh accepts pods of the operator.
	Labels, Annotations map[string]string
}

// Units are the time limit and concurrency of the units of a Resource, with 0 for the default, and the
// permissions of their pods beyond the common bound.
type Units struct {
	Deadline time.Duration
	AtOnce   int
	Allow    execunit.Powers
}

// OperatorNamespace is the namespace in which the chart installs the operator.
const OperatorNamespace = "signadot"

// clusterFile is the part of the file that is read. The rest of the published
// format is passed over: it may hold values of other types than documented (the
// chart has written a boolean where a text is due).
type clusterFile struct {
	AllowedNamespaces []string `json:"allowedNamespaces"`
	Routing           struct {
		CustomHeaders []string `json:"customHeaders"`
		IptablesMode  string   `json:"iptablesMode"`
		Linkerd       struct {
			Enabled  bool     `json:"enabled"`
			Operator operator `json:"operator"`
		} `json:"linkerd"`
		Istio struct {
			Enabled               bool              `json:"enabled"`
			Operator              operator          `json:"operator"`
			EnableHostRouting     bool              `json:"enableHostRouting"`
			AdditionalLabels      map[string]string `json:"additionalLabels"`
			AdditionalAnnotations map[string]string `json:"additionalAnnotations"`
		} `json:"istio"`
		GatewayAPI struct {
			Enabled              bool     `json:"enabled"`
			Implementation       string   `json:"implementation"`
			PreservedAnnotations []string `json:"preservedAnnotations"`
			PreservedLabels      []string `json:"preservedLabels"`
		} `json:"gatewayAPI"`
	} `json:"routing"`
	Sandboxes struct {
		Patches struct {
			Allow []string `json:"allow"`
		} `json:"patches"`
		Authors struct {
			Ask       bool                `json:"ask"`
			Delegates admission.Delegates `json:"delegates"`
		} `json:"authors"`
		Limits struct {
			Members, Patches, Replicas int
		} `json:"limits"`
		ExternalWorkloads struct {
			// Durations as Go writes them, such as 60s; empty for the defaults.
			TunnelFresh    string `json:"tunnelFresh"`
			TunnelGrace    string `json:"tunnelGrace"`
			WriteEndpoints bool   `json:"writeEndpoints"`
		} `json:"externalWorkloads"`
	} `json:"sandboxes"`
	TrafficManager struct {
		Enabled bool `json:"enabled"`
	} `json:"trafficManager"`
	TrafficCapture struct {
		Enabled bool `json:"enabled"`
	} `json:"trafficCapture"`
	Policies policies.Settings `json:"policies"`
	Forks    struct {
		PreservedLabels []string `json:"preservedLabels"`
	} `json:"forks"`
	Workflows struct {
		// A duration as Go writes it, such as 30m; empty for the default.
		UnitDeadline  string `json:"unitDeadline"`
		ParallelUnits int    `json:"parallelUnits"`
		Runner        struct {
			Allow []string `json:"allow"`
		} `json:"runner"`
	} `json:"workflows"`
	Jobs struct {
		Allow []string `json:"allow"`
		// A duration as Go writes it, and a quantity; empty for the defaults.
		KeepResults     string `json:"keepResults"`
		ArtifactsPerPod string `json:"artifactsPerPod"`
		KeptPods        int    `json:"keptPods"`
		KeepJobs        string `json:"keepJobs"`
		MaxJobs         int    `json:"maxJobs"`
		S3              Bucket `json:"s3"`
		Redirect        bool   `json:"redirect"`
	} `json:"jobs"`
}

// operator has the metadata of the operator's pods in a mesh.
type operator struct {
	PodLabels      map[string]string `json:"podLabels"`
	PodAnnotations map[string]string `json:"podAnnotations"`
}

// ReadFile reads the file. One that does not exist means the defaults, which
// are right for a cluster without restrictions.
func ReadFile(path string) (Cluster, error) {
	content, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Cluster{}, nil
	}
	if err != nil {
		return Cluster{}, fmt.Errorf("read the operator's configuration: %w", err)
	}
	c, err := Parse(content)
	if err != nil {
		return Cluster{}, fmt.Errorf("read the operator's configuration %s: %w", path, err)
	}
	return c, nil
}

// Parse returns the settings in the content of the file; the error names the invalid setting.
func Parse(content []byte) (Cluster, error) {
	var f clusterFile
	if err := yaml.Unmarshal(content, &f); err != nil {
		return Cluster{}, err
	}
	mode, err := spec.ParseMode(f.Routing.IptablesMode)
	if err != nil {
		return Cluster{}, fmt.Errorf("routing.iptablesMode: %w", err)
	}
	c := Cluster{AllowedNamespaces: f.AllowedNamespaces, CustomHeaders: f.Routing.CustomHeaders, IptablesMode: mode,
		AskAuthors: f.Sandboxes.Authors.Ask, Limits: admission.Limits(f.Sandboxes.Limits), Delegates: f.Sandboxes.Authors.Delegates,
		TrafficManager: f.TrafficManager.Enabled, TrafficCapture: f.TrafficCapture.Enabled}
	if err := c.Delegates.Validate(); err != nil {
		return Cluster{}, err
	}
	for _, name := range c.CustomHeaders {
		if err := routingkey.CheckHeader(name); err != nil {
			return Cluster{}, fmt.Errorf("routing.customHeaders: %w", err)
		}
	}
	if c.PatchPowers, err = power.Parse(f.Sandboxes.Patches.Allow); err != nil {
		return Cluster{}, fmt.Errorf("%s: %w", power.Setting, err)
	}
	if c.ExternalWorkloads, err = f.externalWorkloads(); err != nil {
		return Cluster{}, err
	}
	if c.Units, err = f.units(); err != nil {
		return Cluster{}, err
	}
	if c.Runners, err = f.runners(); err != nil {
		return Cluster{}, err
	}
	c.Policies = f.Policies
	c.Policies.PreservedLabels = f.Forks.PreservedLabels
	if err := c.Policies.Validate(); err != nil {
		return Cluster{}, err
	}
	if f.Routing.Istio.EnableHostRouting {
		return Cluster{}, errors.New("routing.istio.enableHostRouting is no longer supported: a VirtualService is always matched by the hosts of its destinations. Remove the setting")
	}
	c.Istio = istioadapter.Settings{Enabled: f.Routing.Istio.Enabled, Labels: f.Routing.Istio.AdditionalLabels, Annotations: f.Routing.Istio.AdditionalAnnotations}
	if err := c.Istio.Validate(); err != nil {
		return Cluster{}, fmt.Errorf("routing.istio.%w", err)
	}
	if of := f.Routing.GatewayAPI; of.Enabled {
		c.GatewayAPI = gatewayadapter.Settings{
			Enabled: true, Istio: of.Implementation == "istio", PreservedLabels: of.PreservedLabels, PreservedAnnotations: of.PreservedAnnotations,
		}
	}
	if len(c.AllowedNamespaces) > 0 && !slices.Contains(c.AllowedNamespaces, OperatorNamespace) {
		c.AllowedNamespaces = append(c.AllowedNamespaces, OperatorNamespace)
	}
	return c, nil
}

// externalWorkloads reads the bounds for tunnels.
func (f clusterFile) externalWorkloads() (externalworkload.Limits, error) {
	said := f.Sandboxes.ExternalWorkloads
	limits := externalworkload.Limits{WriteEndpoints: said.WriteEndpoints}
	for field, bound := range map[string]struct {
		text string
		to   *time.Duration
	}{
		"tunnelFresh": {said.TunnelFresh, &limits.Fresh},
		"tunnelGrace": {said.TunnelGrace, &limits.Grace},
	} {
		if bound.text == "" {
			continue
		}
		d, err := time.ParseDuration(bound.text)
		if err != nil || d < time.Second {
			return limits, fmt.Errorf("sandboxes.externalWorkloads.%s is %q: give a duration of at least 1s, such as 60s", field, bound.text)
		}
		*bound.to = d
	}
	return limits, nil
}

// units reads how units of Resources run.
func (f clusterFile) units() (u Units, err error) {
	said := f.Workflows
	u.AtOnce = said.ParallelUnits
	if u.AtOnce < 0 {
		return u, fmt.Errorf("workflows.parallelUnits is %d: let at least one run", u.AtOnce)
	}
	if said.UnitDeadline != "" {
		if u.Deadline, err = time.ParseDuration(said.UnitDeadline); err != nil || u.Deadline < time.Second {
			return u, fmt.Errorf("workflows.unitDeadline is %q: give a duration of at least 1s, such as 30m", said.UnitDeadline)
		}
	}
	if u.Allow, err = execunit.Parse(said.Runner.Allow); err != nil {
		return u, fmt.Errorf("%s: %w", execunit.Setting, err)
	}
	return u, nil
}

// runners reads how the pods that run jobs are created.
func (f clusterFile) runners() (r Runners, err error) {
	said := f.Jobs
	r.Redirect, r.KeptPods, r.MaxJobs, r.S3 = said.Redirect, said.KeptPods, said.MaxJobs, said.S3
	if r.KeptPods < 0 || r.MaxJobs < 0 {
		return r, fmt.Errorf("jobs.keptPods is %d, and jobs.maxJobs %d: give numbers of at least 0", r.KeptPods, r.MaxJobs)
	}
	if r.Allow, err = execunit.Parse(said.Allow); err != nil {
		return r, fmt.Errorf("%s: %w", jobpod.Setting, err)
	}
	for name, of := range map[string]struct {
		text string
		to   *time.Duration
	}{"keepResults": {f.Jobs.KeepResults, &r.KeepResults}, "keepJobs": {f.Jobs.KeepJobs, &r.KeepJobs}} {
		if of.text == "" {
			continue
		}
		if *of.to, err = time.ParseDuration(of.text); err != nil || *of.to < time.Second {
			return r, fmt.Errorf("jobs.%s is %q: give a duration of at least 1s, such as 15m", name, of.text)
		}
	}
	if said.ArtifactsPerPod != "" {
		bytes, err := resource.ParseQuantity(said.ArtifactsPerPod)
		if err != nil || bytes.Value() < 0 {
			return r, fmt.Errorf("jobs.artifactsPerPod is %q: give a quantity of bytes, such as 1Gi", said.ArtifactsPerPod)
		}
		r.ArtifactBytes = bytes.Value()
	}
	if f.Routing.Istio.Enabled {
		r.Labels, r.Annotations = jobpod.InIstio(f.Routing.Istio.Operator.PodLabels)
	}
	if f.Routing.Linkerd.Enabled {
		r.Annotations = jobpod.InLinkerd(f.Routing.Linkerd.Operator.PodAnnotations)
	}
	return r, nil
}

// The ConfigMap with the operator's configuration, its key, and the operator's Deployment, as the
// chart creates them.
const (
	configName = "cluster-config"
	configFile = "cluster_config.yaml"
	// ManagerName is the Deployment of the controller manager.
	ManagerName = "signadot-controller-manager"
)

// ErrNotRead is returned when the operator's configuration does not exist or cannot be read with
// the rights of the user.
var ErrNotRead = errors.New("the operator's configuration was not read")

// Installed returns the configuration of the operator in the namespace operator, or ErrNotRead.
func Installed(ctx context.Context, reader client.Reader, operator string) (Cluster, error) {
	var held corev1.ConfigMap
	err := reader.Get(ctx, client.ObjectKey{Namespace: operator, Name: configName}, &held)
	text, there := held.Data[configFile]
	switch {
	case apierrors.IsNotFound(err), apierrors.IsForbidden(err):
		return Cluster{}, fmt.Errorf("%w (%w)", ErrNotRead, err)
	case err != nil:
		return Cluster{}, fmt.Errorf("read the operator's configuration: %w", err)
	case !there:
		return Cluster{}, fmt.Errorf("%w (ConfigMap %s/%s has no %s)", ErrNotRead, operator, configName, configFile)
	}
	cluster, err := Parse([]byte(text))
	if err != nil {
		return Cluster{}, fmt.Errorf("the operator's configuration, ConfigMap %s/%s, is not valid, so that it would not start: %w", operator, configName, err)
	}
	return cluster, nil
}

// ManagerEnv returns the environment of the operator's Deployment.
func ManagerEnv(ctx context.Context, reader client.Reader, operator string) (func(string) string, error) {
	var deployed appsv1.Deployment
	if err := reader.Get(ctx, client.ObjectKey{Namespace: operator, Name: ManagerName}, &deployed); err != nil {
		return nil, err
	}
	env := map[string]string{}
	for i := range deployed.Spec.Template.Spec.Containers {
		for _, v := range deployed.Spec.Template.Spec.Containers[i].Env {
			env[v.Name] = v.Value
		}
	}
	return func(name string) string { return env[name] }, nil
}
