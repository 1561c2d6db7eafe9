package localenv

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/variables"
	"switchyard.dev/tools/switchyard/command/exit"
	"switchyard.dev/tunnels/workstation/containerenv"
)

// maxOwn is the maximum size of a sandbox's settings for a workload, with variables substituted: no
// Kubernetes object is larger.
const maxOwn = 3 << 20

// customize adds the sandbox's settings for its workload to the environment and files of a process.
func customize(ctx context.Context, c client.Reader, o *crdv1.SignadotSandbox, workload string, of *baseline.Workload, made []crdv1.Resource, in *containerenv.Input) error {
	text := o.Annotations[crdv1.AnnotationLocal]
	if text == "" {
		return nil
	}
	var all map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &all); err != nil {
		return exit.No.Errorf("annotation %s of sandbox %s is not a JSON object by the names of workloads: %w\nApply the sandbox again", crdv1.AnnotationLocal, o.Name, err)
	}
	content := all[workload]
	if content == nil {
		return nil
	}
	main, err := containerenv.Main(in.Template, in.Container)
	if err != nil {
		return exit.Usage.Errorf("%w", err)
	}
	known := variables.Values{".baseline.container": cmp.Or(of.MainContainer(), main.Name)}
	for _, r := range made {
		known[".resources."+r.Spec.Name+".objectName"] = r.Name
	}
	if bytes.Contains(content, []byte(".forks.")) {
		if err := forks(ctx, c, o, known); err != nil {
			return err
		}
	}
	content, err = known.Substitute(content, false, maxOwn)
	if err != nil {
		return exit.No.Errorf("what sandbox %s gives workload %s cannot be had: %w\nResources and forks are known once the sandbox is ready", o.Name, workload, err)
	}
	var changes crdv1.LocalWorkload
	if err = json.Unmarshal(content, &changes); err == nil {
		err = in.Customize(changes)
	}
	if err != nil {
		return exit.No.Errorf("what sandbox %s gives workload %s cannot be had: %w\nMend local in its specification, and apply it again", o.Name, workload, err)
	}
	return nil
}

// forks adds how the forks of a sandbox are reached, as other forks know it.
func forks(ctx context.Context, c client.Reader, o *crdv1.SignadotSandbox, known variables.Values) error {
	var list crdv1.ForkedWorkloadList
	if err := c.List(ctx, &list, client.MatchingLabels{crdv1.LabelSandbox: crdv1.LabelValue(o.Name)}); err != nil {
		return fmt.Errorf("list the forks of sandbox %s: %w", o.Name, err)
	}
	for i := range list.Items {
		w := &list.Items[i]
		ref, _ := w.BaselineRef()
		reached, _, _ := variables.ReachedBy(w)
		if reached.Host == "" || w.DeletionTimestamp != nil {
			continue
		}
		prefix := ".forks." + ref.Kind + "/" + ref.Namespace + "/" + ref.Name + ".service."
		known[prefix+"host"], known[prefix+"port"] = reached.Host, strconv.Itoa(int(reached.Port))
	}
	return nil
}
