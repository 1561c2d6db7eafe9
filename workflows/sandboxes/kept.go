package sandboxes

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"

	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
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

// MaxKept bounds the size of a specification that is stored in its object: the annotations of an object
// have 256 KiB together.
const MaxKept = 128 << 10

// keep adds a specification to the object that it was compiled to, so that it can be read again. It
// returns the size of one that is too large, which is not stored.
func keep(text json.RawMessage, o client.Object) (tooLarge int, err error) {
	noted, err := json.Marshal(specification{Spec: text, Of: digest(o)})
	if err != nil {
		return 0, err
	}
	size := len(noted)
	annotations := o.GetAnnotations()
	for key, value := range annotations {
		size += len(key) + len(value)
	}
	if size > MaxKept {
		return size, nil
	}
	annotations[crdv1.AnnotationSpecification] = string(noted)
	o.SetAnnotations(annotations)
	return 0, nil
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

// noted reads an annotation that is JSON into a value; other text is left out.
func noted[T any](o client.Object, key string) (value T) {
	_ = json.Unmarshal([]byte(o.GetAnnotations()[key]), &value) // Another client wrote it.
	return value
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
