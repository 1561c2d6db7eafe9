// Package localenv reads, with the user's permissions, the environment and files of a local process
// that replaces a container of the cluster (containerenv computes them). It contains the commands
// get-env and get-files of sandbox.
package localenv

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"runtime"
	"strings"

	"github.com/spf13/pflag"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/workstation/containerenv"
)

// Sandbox reads a sandbox.
func Sandbox(ctx context.Context, c client.Reader, name string) (*crdv1.SignadotSandbox, error) {
	o := &crdv1.SignadotSandbox{}
	err := c.Get(ctx, client.ObjectKey{Name: name}, o)
	if apierrors.IsNotFound(err) {
		return nil, exit.No.Errorf("there is no sandbox %s", name)
	}
	if err != nil {
		return nil, fmt.Errorf("read SignadotSandbox %s: %w", name, err)
	}
	return o, nil
}

// Workload is a workload of a sandbox for which a local process stands in.
type Workload struct {
	workload, container string
	set, allow          []string
}

// Flags adds the flags of a Workload; workload and short are the names of the flag for the
// workload.
func (w *Workload) Flags(f *pflag.FlagSet, workload, short string) {
	f.StringVarP(&w.workload, workload, short, "", "the external workload of the sandbox, by its `name` there; not needed if it has only one")
	f.StringVarP(&w.container, "container", "c", "", "the `container` of the baseline; not needed if there is a main one")
	f.StringArrayVarP(&w.set, "env", "e", nil, "an additional variable, `NAME=VALUE`, or NAME=resource:RESOURCE/OUTPUT for an output of a resource of the sandbox; repeatable")
	f.StringArrayVar(&w.allow, "allow-env", nil, "accept this variable from the cluster although loaders, shells or interpreters run code from it, such as PYTHONPATH: the exact `NAME`; repeatable")
}

// external returns the workload of a sandbox that is meant.
func (w *Workload) external(o *crdv1.SignadotSandbox) (*crdv1.SandboxExternalWorkload, error) {
	var names []string
	for i := range o.Spec.ExternalWorkloads {
		x := &o.Spec.ExternalWorkloads[i]
		if x.Name == w.workload || w.workload == "" && len(o.Spec.ExternalWorkloads) == 1 {
			return x, nil
		}
		names = append(names, x.Name)
	}
	switch {
	case len(names) == 0:
		return nil, exit.No.Errorf("sandbox %s has no external workload: give it one, with local in its specification, or externalWorkloads in the SignadotSandbox", o.Name)
	case w.workload == "":
		return nil, exit.Usage.Errorf("sandbox %s has several external workloads, %s: name one", o.Name, strings.Join(names, ", "))
	}
	return nil, exit.No.Errorf("sandbox %s has no external workload %s; it has %s", o.Name, w.workload, strings.Join(names, ", "))
}

// extras parses the values of --env.
func (w *Workload) extras() (out []containerenv.Extra, err error) {
	for _, text := range w.set {
		name, value, ok := strings.Cut(text, "=")
		if !ok || name == "" {
			return nil, exit.Usage.Errorf("--env %q is not NAME=VALUE", text)
		}
		e := containerenv.Extra{Name: name, Value: value}
		if of, is := strings.CutPrefix(value, "resource:"); is {
			if e.Resource, e.Output, ok = strings.Cut(of, "/"); !ok || e.Resource == "" || e.Output == "" {
				return nil, exit.Usage.Errorf("--env %q does not name an output of a resource, as NAME=resource:db/host", text)
			}
		}
		out = append(out, e)
	}
	return out, nil
}

// allowed returns the names of --allow-env.
func (w *Workload) allowed() ([]string, error) {
	for _, name := range w.allow {
		if name == "" || strings.ContainsAny(name, "=*") {
			return nil, exit.Usage.Errorf("--allow-env %q is not the exact name of a variable: give the flag once for each name", name)
		}
	}
	return w.allow, nil
}

// Resolve reads what the container of the baseline has, with the user's own rights.
func (w *Workload) Resolve(ctx context.Context, c client.Reader, sandbox string) (containerenv.Result, *crdv1.SandboxExternalWorkload, error) {
	extras, err := w.extras()
	if err != nil {
		return containerenv.Result{}, nil, err
	}
	allowed, err := w.allowed()
	if err != nil {
		return containerenv.Result{}, nil, err
	}
	o, err := Sandbox(ctx, c, sandbox)
	if err != nil {
		return containerenv.Result{}, nil, err
	}
	x, err := w.external(o)
	if err != nil {
		return containerenv.Result{}, nil, err
	}
	if x.Baseline == nil || x.Baseline.Fake {
		return containerenv.Result{}, nil, exit.No.Errorf("external workload %s of sandbox %s has no baseline in the cluster, so it has no environment and no files", x.Name, o.Name)
	}
	of, err := Baseline(ctx, c, x.Baseline.ObjectRef)
	if err != nil {
		return containerenv.Result{}, nil, err
	}
	name := crdv1.ObjectName(crdv1.MaxServiceName, o.Name, x.Name)
	in := containerenv.Input{
		Template: *of.Template, Namespace: of.Ref.Namespace, Container: w.container,
		Name: name, CPU: int64(runtime.NumCPU()) * 1000,
		Sandbox: o.Name, RoutingKey: o.Spec.ID, Extra: extras, Allow: allowed,
	}
	in.Node, _ = os.Hostname()
	member := &crdv1.SignadotExternalWorkload{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: name}, member); err == nil {
		in.UID = string(member.UID)
	}
	made, err := resources(ctx, c, o)
	if err != nil {
		return containerenv.Result{}, nil, err
	}
	if err := customize(ctx, c, o, x.Name, of, made, &in); err != nil {
		return containerenv.Result{}, nil, err
	}
	if err := gather(ctx, c, &in); err != nil {
		return containerenv.Result{}, nil, err
	}
	notes := outputs(ctx, c, made, &in)
	result, err := containerenv.Resolve(in)
	if err != nil {
		return containerenv.Result{}, nil, exit.No.Errorf("what %s has cannot be had as a whole:\n%w", baseline.Describe(of.Ref), err)
	}
	result.Notes = append(result.Notes, notes...)
	return result, x, nil
}

// Baseline reads a baseline. The error names the problem with it.
func Baseline(ctx context.Context, c client.Reader, ref crdv1.ObjectRef) (*baseline.Workload, error) {
	of, err := baseline.Read(ctx, c, ref)
	switch {
	case meta.IsNoMatchError(err):
		return nil, exit.No.Errorf("the cluster has no kind %s, which the baseline %s is of", ref.Kind, baseline.Describe(ref))
	case err != nil:
		return nil, err
	case of == nil:
		return nil, exit.No.Errorf("there is no %s, which is the baseline", baseline.Describe(ref))
	case of.Problem != "":
		return nil, exit.No.Errorf("it is not known what the pods of %s are made from: %s", baseline.Describe(ref), of.Problem)
	}
	return of, nil
}

// gather reads the objects that a container names.
func gather(ctx context.Context, c client.Reader, in *containerenv.Input) error {
	needed, err := containerenv.Needs(*in)
	if err != nil {
		return exit.Usage.Errorf("%w", err)
	}
	in.ConfigMaps, in.Secrets, in.Unread = map[string]*corev1.ConfigMap{}, map[string]*corev1.Secret{}, map[string]string{}
	for _, name := range needed.ConfigMaps {
		o := &corev1.ConfigMap{}
		if there, err := get(ctx, c, in, "ConfigMap", name, o); err != nil {
			return err
		} else if there {
			in.ConfigMaps[name] = o
		}
	}
	for _, name := range needed.Secrets {
		o := &corev1.Secret{}
		if there, err := get(ctx, c, in, "Secret", name, o); err != nil {
			return err
		} else if there {
			in.Secrets[name] = o
		}
	}
	account := &corev1.ServiceAccount{}
	if there, err := get(ctx, c, in, "ServiceAccount", needed.ServiceAccount, account); err != nil {
		return err
	} else if there {
		in.ServiceAccount = account
	}
	return nil
}

// get reads an object; false when it is not there or may not be read.
func get(ctx context.Context, c client.Reader, in *containerenv.Input, kind, name string, o client.Object) (bool, error) {
	err := c.Get(ctx, client.ObjectKey{Namespace: in.Namespace, Name: name}, o)
	switch {
	case apierrors.IsNotFound(err):
		return false, nil
	case apierrors.IsForbidden(err):
		in.Unread[kind+"/"+name] = fmt.Sprintf("you may not get %s in namespace %s", strings.ToLower(kind)+"s", in.Namespace)
		return false, nil
	case err != nil:
		return false, fmt.Errorf("read %s %s/%s: %w", kind, in.Namespace, name, err)
	}
	return true, nil
}

// resources lists those of a sandbox.
func resources(ctx context.Context, c client.Reader, o *crdv1.SignadotSandbox) ([]crdv1.Resource, error) {
	if len(o.Spec.ManagedResources) == 0 {
		return nil, nil
	}
	var list crdv1.ResourceList
	if err := c.List(ctx, &list, client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(o.Name)}); err != nil {
		return nil, fmt.Errorf("list the Resources of sandbox %s: %w", o.Name, err)
	}
	return list.Items, nil
}

// outputs reads the outputs of the sandbox's resources, from the Secrets that forks use. Notes name
// the resources with unknown outputs.
func outputs(ctx context.Context, c client.Reader, all []crdv1.Resource, in *containerenv.Input) (notes []string) {
	in.Outputs, in.OutputSecrets = map[string]map[string][]byte{}, map[string]string{}
	for i := range all {
		r := &all[i]
		found := false
		for _, namespace := range r.Spec.OutputNamespaces {
			s := &corev1.Secret{}
			if err := c.Get(ctx, client.ObjectKey{Namespace: namespace, Name: r.OutputsSecret()}, s); err == nil {
				in.Outputs[r.Spec.Name], in.Secrets[s.Name], in.OutputSecrets[s.Name], found = s.Data, s, r.Spec.Name, true
				break
			}
		}
		if !found {
			in.Unread["Secret/"+r.OutputsSecret()] = cmp.Or(in.Unread["Secret/"+r.OutputsSecret()],
				fmt.Sprintf("it has the outputs of resource %s, which is not ready yet, or you may not read it", r.Spec.Name))
			notes = append(notes, fmt.Sprintf("The outputs of resource %s are left out: no Secret %s that you may read has them, in one of the namespaces %s.",
				r.Spec.Name, r.OutputsSecret(), cmp.Or(strings.Join(r.Spec.OutputNamespaces, ", "), "(none)")))
		}
	}
	return notes
}
