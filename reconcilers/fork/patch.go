package fork

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strconv"

	jsonpatch "github.com/evanphx/json-patch/v5"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/baseline"
	"switchyard.dev/reconcilers/fork/variables"
)

// maxDocument is the size in bytes up to which a patched workload, and a patch with
// its variables substituted, may grow.
// The API server takes no object over about 1.5 MiB, so nothing useful is lost,
// and a patch that copies and copies cannot eat the memory of the controller.
const maxDocument = 3 << 20

// Forms of patches, as their fields are called.
const (
	formStrategic = "strategic"
	formMerge     = "merge"
	formJSON      = "json"
)

// patchForm is the form of one patch and its content as JSON; the zero value is a patch
// that changes nothing.
type patchForm struct {
	name    string
	content []byte
}

// formOf returns the form and content of a patch of the plan, with variables substituted if it is a
// template.
func formOf(plan Plan, i int, here patchPlace) (patchForm, *Problem) {
	patch := plan.Patches[i]
	form, err := theForm(patch)
	if err != nil {
		return patchForm{}, problem(ReasonInvalidPatch, "%s %v", here, err)
	}
	if !patch.Template || form.name == "" {
		return form, nil
	}
	known := variablesOf(plan, here.live)
	if known[variableContainer] == "" && bytes.Contains(form.content, []byte(variableContainer)) {
		return patchForm{}, problem(ReasonInvalidTemplate, "%s (%s) is for the main container, and the baseline has %s: name one of them in the patch, or in the annotation %s of the pod template",
			here, form.name, containerNames("container", here.live.Template.Spec.Containers), baseline.AnnotationMainContainer)
	}
	for _, name := range siblings(form.content) {
		if sibling, is := plan.Siblings[name]; is && sibling.Host == "" {
			return patchForm{}, problem(ReasonSiblingWithoutService, "%s (%s) names the Service of the fork of %s, which has none: give that workload a Service",
				here, form.name, name)
		}
	}
	if form.content, err = known.Substitute(form.content, form.name == formJSON, maxDocument); err != nil {
		return patchForm{}, problem(ReasonInvalidTemplate, "%s (%s) is a template, and %v", here, form.name, err)
	}
	return form, nil
}

// AcceptForm returns an error when a patch is written in more than one form. Its text is
// the end of a sentence about the patch.
func AcceptForm(p crdv1.Patch) error {
	_, err := theForm(p)
	return err
}

// theForm returns the one form that is set. A patch that sets none changes nothing: the
// fork is a copy of its baseline. Published sandboxes ask for one in this way.
func theForm(p crdv1.Patch) (patchForm, error) {
	var forms []patchForm
	if p.Strategic != nil && isSet(p.Strategic.Raw) {
		forms = append(forms, patchForm{formStrategic, p.Strategic.Raw})
	}
	if p.Merge != nil && isSet(p.Merge.Raw) {
		forms = append(forms, patchForm{formMerge, p.Merge.Raw})
	}
	if len(p.JSON) > 0 {
		ops, err := json.Marshal(p.JSON)
		if err != nil {
			return patchForm{}, fmt.Errorf("json is not a list of operations: %w", err)
		}
		forms = append(forms, patchForm{formJSON, ops})
	}
	switch len(forms) {
	case 0:
		return patchForm{}, nil
	case 1:
		return forms[0], nil
	}
	names := forms[0].name
	for _, f := range forms[1:] {
		names += " and " + f.name
	}
	return patchForm{}, fmt.Errorf("sets %s: set only one of strategic, merge and json", names)
}

// isSet reports whether free-form content is set; an explicit null is not.
func isSet(raw []byte) bool {
	return len(raw) > 0 && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// apply returns the document with the patch applied. The patch libraries expect input that the API server
// has validated; a panic in them is returned as an error.
func (f patchForm) apply(k kind, document []byte) (patched []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			patched, err = nil, fmt.Errorf("the patch cannot be worked out: %v", r)
		}
	}()
	switch f.name {
	case "":
		return document, nil
	case formStrategic:
		if err := isObject(f.content); err != nil {
			return nil, err
		}
		patched, err = k.strategic(document, f.content)
	case formMerge:
		if err := isObject(f.content); err != nil {
			return nil, err
		}
		patched, err = jsonpatch.MergePatch(document, f.content)
	case formJSON:
		patched, err = applyOperations(document, f.content)
	}
	if err != nil {
		return nil, withoutContent(err)
	}
	if len(patched) > maxDocument {
		return nil, fmt.Errorf("the result has %d bytes; at most %d are possible", len(patched), maxDocument)
	}
	return patched, nil
}

// applyOperations applies an RFC 6902 patch, without the extensions that the
// library allows by default.
func applyOperations(document, operations []byte) ([]byte, error) {
	patch, err := jsonpatch.DecodePatch(operations)
	if err != nil {
		return nil, err
	}
	options := jsonpatch.NewApplyOptions()
	options.SupportNegativeIndices = false
	options.AccumulatedCopySizeLimit = maxDocument
	return patch.ApplyWithOptions(document, options)
}

// isObject refuses a patch that would put something else in place of the whole
// workload.
func isObject(content []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(content, &object); err != nil {
		return errors.New("the patch has to be an object, such as {spec: …}")
	}
	return nil
}

// encode returns a workload as the document that patches are applied to.
func encode(fields map[string]any) ([]byte, error) { return json.Marshal(fields) }

// defaultOutputKind is the kind of the object with a resource's outputs if the resource does not set one.
const defaultOutputKind = "Secret"

// variableContainer is the variable for the main container of the baseline.
const variableContainer = ".baseline.container"

// variablesOf returns the variables that templates of a plan can use. Empty values are unknown.
func variablesOf(plan Plan, live *baseline.Workload) variables.Values {
	known := variables.Values{
		".sandbox.name":       plan.Identity.SandboxName,
		".sandbox.routingKey": plan.Identity.RoutingKey,
		variableContainer:     live.MainContainer(),
	}
	for name, r := range plan.Resources {
		prefix := ".resources." + name
		known[prefix+".name"], known[prefix+".objectName"], known[prefix+".outputKind"] = r.Name, r.ObjectName, cmp.Or(r.OutputKind, defaultOutputKind)
	}
	for name, s := range plan.Siblings {
		known[".forks."+name+".service.host"], known[".forks."+name+".service.port"] = s.Host, strconv.Itoa(int(s.Port))
	}
	maps.DeleteFunc(known, func(_, text string) bool { return text == "" })
	return known
}
