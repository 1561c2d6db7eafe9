package fork

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	jsonpatch "github.com/evanphx/json-patch/v5"
	appsv1 "k8s.io/api/apps/v1"
	"k8s.io/apimachinery/pkg/util/strategicpatch"
	kjson "sigs.k8s.io/json"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// maxDocument is the size in bytes up to which a patched Deployment may grow.
// The API server takes no object over about 1.5 MiB, so nothing useful is lost,
// and a patch that copies and copies cannot eat the memory of the controller.
const maxDocument = 3 << 20

// patchForm is the form of one patch and its content as JSON.
type patchForm struct {
	name    string // strategic, merge or json
	content []byte
}

// formOf finds the form in which a patch is written. Exactly one has to be set.
func formOf(p crdv1.Patch) (patchForm, error) {
	var forms []patchForm
	if p.Strategic != nil && isSet(p.Strategic.Raw) {
		forms = append(forms, patchForm{"strategic", p.Strategic.Raw})
	}
	if p.Merge != nil && isSet(p.Merge.Raw) {
		forms = append(forms, patchForm{"merge", p.Merge.Raw})
	}
	if len(p.JSON) > 0 {
		ops, err := json.Marshal(p.JSON)
		if err != nil {
			return patchForm{}, fmt.Errorf("json is not a list of operations: %w", err)
		}
		forms = append(forms, patchForm{"json", ops})
	}
	switch len(forms) {
	case 0:
		return patchForm{}, errors.New("sets none of strategic, merge and json: set exactly one")
	case 1:
		return forms[0], nil
	default:
		return patchForm{}, fmt.Errorf("sets %s and %s: set exactly one of strategic, merge and json",
			forms[0].name, forms[1].name)
	}
}

// isSet says whether free-form content is there at all; a written null is not.
func isSet(raw []byte) bool {
	return len(raw) > 0 && !bytes.Equal(bytes.TrimSpace(raw), []byte("null"))
}

// apply gives the document with the patch applied. The libraries beneath are
// written for input that the API server has checked; a panic of theirs is the
// same as a patch that does not apply.
func (f patchForm) apply(document []byte) (patched []byte, err error) {
	defer func() {
		if r := recover(); r != nil {
			patched, err = nil, fmt.Errorf("the patch cannot be worked out: %v", r)
		}
	}()
	switch f.name {
	case "strategic":
		if err := isObject(f.content); err != nil {
			return nil, err
		}
		patched, err = strategicpatch.StrategicMergePatch(document, f.content, appsv1.Deployment{})
	case "merge":
		if err := isObject(f.content); err != nil {
			return nil, err
		}
		patched, err = jsonpatch.MergePatch(document, f.content)
	case "json":
		patched, err = applyOperations(document, f.content)
	}
	if err != nil {
		return nil, err
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
// Deployment.
func isObject(content []byte) error {
	var object map[string]json.RawMessage
	if err := json.Unmarshal(content, &object); err != nil {
		return errors.New("the patch has to be an object, such as {spec: …}")
	}
	return nil
}

// encode gives a Deployment as the document that patches are applied to.
func encode(d *appsv1.Deployment) ([]byte, error) {
	return json.Marshal(d)
}

// decode reads a patched document. A field that no Deployment has is refused:
// it is a slip of the pen that the API server would drop without a word, and
// then the fork would do what the baseline does.
func decode(document []byte) (*appsv1.Deployment, error) {
	d := &appsv1.Deployment{}
	strict, err := kjson.UnmarshalStrict(document, d)
	if err != nil {
		return nil, err
	}
	if len(strict) > 0 {
		return nil, strict[0]
	}
	return d, nil
}
