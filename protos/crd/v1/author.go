package v1

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AnnotationAuthor, on an object with a specification, is the user who last changed the
// specification or an annotation that counts as specification, as JSON of Author. The
// API server's admission webhook of the operator writes it; an admission policy of the
// chart refuses every other change. Objects from before the webhook lack it, as do all
// objects while sandboxes.authors.ask is false: they have no known author. The operator's
// own writes keep it, so that of a member names the last user who wrote the member, and not
// the author of the sandbox, for which the operator may have written the member since.
const AnnotationAuthor = "switchyard.dev/author"

// AnnotationGeneration, on an object that a control plane manages, is the number of the control plane's
// version of it, in decimal digits. An admission policy of the chart refuses an older write of the agent. An object
// without it was not created by a control plane.
const AnnotationGeneration = "switchyard.dev/generation"

// GenerationOf returns the number of the control plane's version of an object; 0: it has none.
func GenerationOf(o metav1.Object) int64 {
	n, _ := strconv.ParseInt(o.GetAnnotations()[AnnotationGeneration], 10, 64) // another text counts as none
	return n
}

// RoutingKeyOf returns the routing key of a SignadotSandbox or a SignadotRouteGroup; empty for other kinds.
func RoutingKeyOf(o Object) string {
	switch o := o.(type) {
	case *SignadotSandbox:
		return o.Spec.ID
	case *SignadotRouteGroup:
		return o.Spec.RoutingKey
	}
	return ""
}

// Author is a user as the API server authenticated it.
type Author struct {
	// User is the user's name.
	User string `json:"user"`
	// Groups are the user's groups.
	Groups []string `json:"groups,omitempty"`
}

// AuthorOf returns the author recorded in an object's annotations. known is false if
// there is none. It returns an error if the annotation cannot be parsed or names no user:
// treat the author as unknown then.
func AuthorOf(annotations map[string]string) (author Author, known bool, err error) {
	recorded := annotations[AnnotationAuthor]
	if recorded == "" {
		return Author{}, false, nil
	}
	if err := json.Unmarshal([]byte(recorded), &author); err != nil {
		return Author{}, false, fmt.Errorf("annotation %s: %w", AnnotationAuthor, err)
	}
	if author.User == "" {
		return Author{}, false, fmt.Errorf("annotation %s names no user", AnnotationAuthor)
	}
	return author, true, nil
}

// String returns the value of AnnotationAuthor.
func (a Author) String() string {
	text, _ := json.Marshal(a) // strings always marshal
	return string(text)
}

// SpecificationAnnotations returns the annotations that count as specification: the operator or a
// workstation acts on them, so a change of one takes the rights of the whole object. The chart has
// the same list (operator.authorsAnnotations).
func SpecificationAnnotations() []string {
	return append(AuthorAnnotations(),
		AnnotationTTL, AnnotationTTLFrom, AnnotationUpdatedAt,
		AnnotationRetry, AnnotationGiveUp, AnnotationMachine,
	)
}

// AuthorAnnotations returns those of SpecificationAnnotations that decide what runs, or which addresses a
// workstation opens: the user who changes one becomes the author. The others decide when, or on which
// workstation, and leave the author as it is: plain "connect" opens the addresses of an author without
// a question. The chart has the same list (operator.authorAnnotations).
func AuthorAnnotations() []string {
	return []string{
		AnnotationSandboxName, AnnotationRoutingKey, // Templates in patches can use them.
		AnnotationLocal,
		AnnotationSpecification, // Other users can apply what "sandbox get" prints.
	}
}

// ControlPlanePrefix begins the names of users and groups of a control plane
// (controlplane-link/identity). The API server authenticates no such user: where it does, another
// authenticator has the same prefix, and the user is refused.
const ControlPlanePrefix = "switchyard:controlplane:"

// ControlPlaneName returns the first of a user's name and groups that is reserved for users of a
// control plane; empty: none is.
func ControlPlaneName(user string, groups []string) string {
	for _, name := range append([]string{user}, groups...) {
		if strings.HasPrefix(name, ControlPlanePrefix) {
			return name
		}
	}
	return ""
}
