package manager

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	crcache "sigs.k8s.io/controller-runtime/pkg/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"switchyard.dev/eventbus/callers/tokens"
	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/clusterconfig"
	"switchyard.dev/reconcilers/job"
	"switchyard.dev/reconcilers/jobrunnergroup"
	"switchyard.dev/reconcilers/kinds"
	"switchyard.dev/reconcilers/runners"
	"switchyard.dev/reconcilers/trafficcapture"
	"switchyard.dev/sidecars/inject"
	"switchyard.dev/sidecars/redirect/spec"
	"switchyard.dev/tunnels/access"
	"switchyard.dev/workflows/execunit"
	"switchyard.dev/workflows/jobexec/layout"
	"switchyard.dev/workflows/jobexec/results"
	"switchyard.dev/workflows/jobpod"
	"switchyard.dev/workflows/smarttest"
)

// Jobs are the settings of the pods that run jobs.
type Jobs struct {
	// Settings have the pod template. The manager adds its namespace and the CAs that pods trust.
	Settings jobpod.Settings
	// Limits bound how long these pods keep results.
	Limits jobrunnergroup.Limits
	// Runners reaches the runners in these pods, and Finished are the limits of finished jobs (job.Defaults).
	Runners  job.Runners
	Finished job.Limits
	// S3 is the bucket for what jobs leave that no control plane manages; none without a name.
	S3 results.S3
	// GroupsAlone assigns no job, for tests of runner groups.
	GroupsAlone bool
}

// Enabled reports whether jobs run at all: they do where the images of the operator's containers are known.
func (j Jobs) Enabled() bool { return j.Settings.InitImage != "" }

// Validate returns an error if required settings are missing.
func (j Jobs) Validate() error {
	if j.Enabled() && (j.Settings.ProxyImage == "" || j.Settings.Authority == "") {
		return errors.New("manager: jobs need the images of both job-executor-init and job-executor-proxy, and the address of the authority of runners")
	}
	return nil
}

// Defaults of the operator's configuration, as in the chart.
const (
	keepResults     = 15 * time.Minute
	artifactsPerPod = 1 << 30
)

// jobsFromEnv reads the images of the operator's containers in runners, their pull settings and resources,
// from the variables that the chart sets (JOB_EXECUTOR_INIT_IMAGE, JOB_EXECUTOR_PROXY_IMAGE and their kin).
// Without images no job runs.
func jobsFromEnv(get func(string) string) (Jobs, error) {
	first, err := inject.ContainerFromEnv(get, "JOB_EXECUTOR_INIT", "JOB_EXECUTOR_INIT_CONTAINER_RESOURCES")
	if err != nil {
		return Jobs{}, err
	}
	second, err := inject.ContainerFromEnv(get, "JOB_EXECUTOR_PROXY", "JOB_EXECUTOR_PROXY_CONTAINER_RESOURCES")
	if err != nil {
		return Jobs{}, err
	}
	third, err := inject.ContainerFromEnv(get, "SMART_TEST", "SMART_TEST_CONTAINER_RESOURCES")
	if err != nil {
		return Jobs{}, err
	}
	j := Jobs{Settings: jobpod.Settings{
		InitImage: first.Image, InitPullPolicy: first.PullPolicy, InitResources: first.Resources,
		ProxyImage: second.Image, ProxyPullPolicy: second.PullPolicy, ProxyResources: second.Resources,
		ProxyLogLevel: get("JOB_EXECUTOR_PROXY_LOG_LEVEL"), PullSecrets: pullSecrets(first, second, third), Authority: runners.At(operatorNamespace),
		SmartTest: jobpod.SmartTest{Image: third.Image, PullPolicy: third.PullPolicy, Resources: third.Resources, Elide: get(smarttest.EnvElide)},
	}}
	return j, j.Validate()
}

// pullSecrets returns the pull secrets of containers, each once.
func pullSecrets(containers ...inject.Container) (out []string) {
	for _, c := range containers {
		if c.PullSecret != "" && !slices.Contains(out, c.PullSecret) {
			out = append(out, c.PullSecret)
		}
	}
	return out
}

// within returns the settings of jobs, completed from the operator's configuration.
func (j Jobs) within(c clusterconfig.Cluster) Jobs {
	s := &j.Settings
	s.Allow, s.AuthorAsked, s.Labels, s.Annotations = c.Runners.Allow, c.AskAuthors, c.Runners.Labels, c.Runners.Annotations
	s.ArtifactBytes = cmp.Or(c.Runners.ArtifactBytes, artifactsPerPod)
	j.Limits = jobrunnergroup.Limits{Results: cmp.Or(c.Runners.KeepResults, keepResults), Pods: c.Runners.KeptPods}
	d := job.Defaults
	j.Finished = job.Limits{Keep: cmp.Or(c.Runners.KeepJobs, d.Keep), Most: cmp.Or(c.Runners.MaxJobs, d.Most), Unread: j.Limits.Results}
	j.S3 = results.S3(c.Runners.S3)
	return j
}

// JobsIn returns how jobs run with the operator's configuration of a cluster.
func (s Settings) JobsIn(c clusterconfig.Cluster) Jobs {
	j := s.Jobs.within(c)
	if c.Runners.Redirect && c.IptablesMode != spec.ModeLegacy {
		injected := s.Inject
		injected.IptablesMode = c.IptablesMode
		j = j.redirecting(injected)
	}
	return j
}

// redirecting returns the settings of jobs with the init container that redirects connections of scripts. Its image is the
// one that redirects for sidecars, and its resources are those of the other init container.
func (j Jobs) redirecting(c inject.Config) Jobs {
	of := spec.Spec{All: true, To: layout.RedirectPort, Outgoing: layout.ProxyUser, Done: layout.Redirected}
	c.Redirect.Resources = new(execunit.Container("", "", "", j.Settings.InitResources).Resources)
	j.Settings.Redirector = new(inject.RedirectOutgoing(layout.RedirectContainer, of, c))
	if name := c.Redirect.PullSecret; name != "" && !slices.Contains(j.Settings.PullSecrets, name) {
		j.Settings.PullSecrets = append(slices.Clone(j.Settings.PullSecrets), name)
	}
	return j
}

// addJobs has the controllers run jobs.
func (m *Main) addJobs(c *kinds.Config) error {
	j := m.config.Jobs
	if !j.Enabled() {
		return nil
	}
	held, err := m.podsWith(crdv1.JobRunnerGroupLabel, "runners")
	if err != nil {
		return err
	}
	j.Settings.OperatorNamespace = m.config.Namespace
	j.Limits.Results = cmp.Or(j.Limits.Results, keepResults)
	size := cmp.Or(j.Settings.ArtifactBytes, artifactsPerPod)
	if m.results, err = results.Open(results.Config{S3: j.S3, Limits: results.Limits{File: size, Job: size}}); err != nil {
		return fmt.Errorf("jobs.s3: %w", err)
	}
	c.Jobs = &kinds.Jobs{Results: m.results, Pods: held, Settings: j.Settings, Limits: j.Limits, Runners: j.Runners, Finished: j.Finished}
	if m.config.Trust != nil {
		c.Jobs.CA = m.config.Trust.PEM
	}
	kube, err := kubernetes.NewForConfig(m.config.REST)
	if err != nil {
		return fmt.Errorf("reach the API server for the keys of runners: %w", err)
	}
	m.runnerKeys = &runners.Keeper{Secrets: kube.CoreV1().Secrets(m.config.Namespace), Logger: m.config.Logger}
	if m.config.Traffic.Manager {
		m.runnerKeys.ConfigMaps = kube.CoreV1().ConfigMaps(m.config.Namespace)
	}
	c.Jobs.Sign = m.runnerKeys.Signer
	m.add("what makes the keys of runners", everywhere(m.runnerKeys.Run))
	if c.Jobs.Runners == nil && !m.config.Jobs.GroupsAlone {
		c.Jobs.Runners = job.Reach(m.runnerKeys.Authority, m.runnerKeys.Issue)
	}
	return nil
}

// addRunners adds the listener for runners and their users. Its certificate is that of the webhook.
func (m *Main) addRunners() error {
	if !m.config.Jobs.Enabled() || m.injector == nil {
		return nil
	}
	kube, err := kubernetes.NewForConfig(m.config.REST)
	if err != nil {
		return fmt.Errorf("reach the API server for runners: %w", err)
	}
	asks, keys := kube.AuthenticationV1().TokenReviews(), kube.Discovery().RESTClient()
	rights := kube.AuthorizationV1().SubjectAccessReviews()
	verifier, err := tokens.New(tokens.Config{Reviews: asks, Audience: layout.Audience, Keys: tokens.PublishedKeys(keys)})
	if err != nil {
		return err
	}
	users, err := access.New(access.Config{Tokens: asks, Rights: rights, Issuer: tokens.NewIssuer(keys, nil), Logger: m.config.Logger})
	if err != nil {
		return err
	}
	config := runners.Config{
		Certificate: m.injector.Certificate, Keys: m.runnerKeys, Live: m.manager.GetAPIReader(), Tokens: verifier,
		Users: users, Rights: access.NewReviews(rights, time.Now), Accounts: []string{m.accountUser(agentAccount), m.ownUser()},
		Results: m.results, Metrics: m.config.Metrics, Address: m.config.RunnersAddress, Logger: m.config.Logger,
	}
	if m.config.Traffic.Manager && m.config.Trust != nil {
		config.TrafficManager, config.Authority = trafficcapture.ManagerName+"."+m.config.Namespace+".svc", m.config.Trust.PEM
	}
	served, err := runners.New(config)
	if err != nil {
		return err
	}
	m.runners = served
	m.add("the listener for runners", served)
	return nil
}

// RunnersAddress is where the service of runners is, as host:port; empty where there is none.
func (m *Main) RunnersAddress() string {
	if m.runners == nil {
		return ""
	}
	return m.runners.Address()
}

// everywhere is something that runs on every replica.
type everywhere func(ctx context.Context) error

// Start runs it.
func (f everywhere) Start(ctx context.Context) error { return f(ctx) }

// NeedLeaderElection returns false, so that controller-runtime runs it on every replica.
func (everywhere) NeedLeaderElection() bool { return false }

// podsWith returns a cache of the pods with a label, of what. It is separate because the other cache has all
// pods of some namespaces, and reduces them.
func (m *Main) podsWith(label, what string) (labeledPods, error) {
	held, err := crcache.New(m.config.REST, crcache.Options{
		DefaultNamespaces: inNamespaces(m.config.Namespaces),
		ByObject:          map[client.Object]crcache.ByObject{&corev1.Pod{}: {Label: exists(label), Transform: transform(keepNoBooks)}},
	})
	if err != nil {
		return labeledPods{}, fmt.Errorf("make the cache of pods of %s: %w", what, err)
	}
	all := labeledPods{held}
	m.add("the cache of pods of "+what, all)
	return all, nil
}
