package sandboxes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/tools/switchyard/command"
	"switchyard.dev/tools/switchyard/show"
	"switchyard.dev/workflows/specfile"
)

// compiledTo are the annotations that are compiled of a specification.
var compiledTo = []string{
	crdv1.AnnotationDescription, crdv1.AnnotationLabels, crdv1.AnnotationTTL, crdv1.AnnotationTTLFrom,
	crdv1.AnnotationEndpoints, crdv1.AnnotationPlugins, crdv1.AnnotationLocal,
}

// specification is what AnnotationSpecification has.
type specification struct {
	// Spec is the specification, with directives replaced.
	Spec json.RawMessage `json:"spec"`
	// Of is the digest of the object that it was compiled to.
	Of string `json:"of"`
}

// maxKept bounds a specification that is kept: the annotations of an object have 256 KiB together.
const maxKept = 128 << 10

// keep adds the specification of a file to the object that it was compiled to, so that "get" can
// print it.
func keep(s *command.Session, f *specfile.File, o client.Object) error {
	text, err := f.JSON("spec")
	if err != nil {
		return err
	}
	noted, err := json.Marshal(specification{Spec: text, Of: digest(o)})
	if err != nil {
		return err
	}
	size := len(noted)
	for key, value := range o.GetAnnotations() {
		size += len(key) + len(value)
	}
	if size > maxKept {
		_, _ = fmt.Fprintln(s.Err, show.Plain(fmt.Sprintf("note: the specification of %s has %d bytes and is not stored in the object, so \"get\" cannot print it; the limit is %d", o.GetName(), size, maxKept)))
		return nil
	}
	annotations := o.GetAnnotations()
	annotations[crdv1.AnnotationSpecification] = string(noted)
	o.SetAnnotations(annotations)
	return nil
}

// known returns the specification that an object was compiled from; nil when it was not applied as
// a file, or was changed since.
func known(o client.Object) json.RawMessage {
	noted := noted[specification](o, crdv1.AnnotationSpecification)
	if noted.Of == "" || noted.Of != digest(o) {
		return nil
	}
	return noted.Spec
}

// unknown prints a note that the printed object cannot be applied.
func unknown(s *command.Session, spec json.RawMessage, o client.Object) {
	if spec == nil && s.Show.Form != show.Table {
		_, _ = fmt.Fprintln(s.Err, show.Plain("note: the specification of "+o.GetName()+" is not known, so the output cannot be applied: the object was not written by apply, or was changed since"))
	}
}

// digest identifies what a specification was compiled to, whatever the form of its JSON.
func digest(o client.Object) string {
	var object struct {
		Spec any `json:"spec"`
	}
	text, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(text, &object)
	}
	annotations := map[string]string{}
	for _, key := range compiledTo {
		if value, has := o.GetAnnotations()[key]; has {
			annotations[key] = value
		}
	}
	if err == nil {
		text, err = json.Marshal([]any{object.Spec, annotations})
	}
	if err != nil {
		return "" // Such an object has no known specification.
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}
