package admission

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	admissionv1 "k8s.io/api/admission/v1"
	authenticationv1 "k8s.io/api/authentication/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
)

// SettingDelegates is the chart's value with the Delegates.
const SettingDelegates = "sandboxes.authors.delegates"

// mostRecorded is the size in bytes of a recorded author with groups. For a larger one only
// the user is recorded: an object has 256 KiB for all its annotations.
const mostRecorded = 32 << 10

// Delegate is an account that writes objects on behalf of other users.
type Delegate struct {
	// Account is the user name of a service account: system:serviceaccount:NAMESPACE:NAME.
	Account string `json:"account"`
	// Prefix begins each user and group that the account may name.
	Prefix string `json:"prefix"`
}

// Delegates are the accounts that write on behalf of others, each once.
type Delegates []Delegate

var serviceAccount = regexp.MustCompile(`^system:serviceaccount:[^:]+:[^:]+$`)

// reserved is the prefix of users and groups with rights from Kubernetes itself.
const reserved = "system:"

// Validate returns which entry is wrong, and why.
func (d Delegates) Validate() error {
	had := map[string]bool{}
	for i, one := range d {
		at := fmt.Sprintf("%s[%d]", SettingDelegates, i)
		switch {
		case !serviceAccount.MatchString(one.Account):
			return fmt.Errorf("%s.account is %q: use the user name of a service account, system:serviceaccount:NAMESPACE:NAME", at, one.Account)
		case had[one.Account]:
			return fmt.Errorf("%s.account: %s is listed twice: give it one prefix", at, one.Account)
		case one.Prefix == "" || strings.HasPrefix(reserved, one.Prefix) || strings.HasPrefix(one.Prefix, reserved):
			return fmt.Errorf("%s.prefix is %q: use a prefix that no user or group of Kubernetes (%s) has, such as agent:", at, one.Prefix, reserved)
		}
		had[one.Account] = true
	}
	return nil
}

// AuthorOf returns the user that a request is attributed to, and the same as a user to ask
// about. That is the user who sent the request. A delegate can name another one in
// crdv1.AnnotationAuthor of the object: annotations are those of the object after the
// change, before those before it. An error names the refused user or group; a sender with the
// name of a control plane's user is refused, since only a delegate may name one.
func (d Delegates) AuthorOf(sender authenticationv1.UserInfo, annotations, before map[string]string) (crdv1.Author, authenticationv1.UserInfo, error) {
	own := crdv1.Author{User: sender.Username, Groups: sender.Groups}
	if name := crdv1.ControlPlaneName(sender.Username, sender.Groups); name != "" {
		return own, sender, fmt.Errorf("the API server authenticates you as %.253q, and names that begin with %q are reserved for users of a control plane: configure another prefix in the API server's authenticator", name, crdv1.ControlPlanePrefix)
	}
	if len(own.String()) > mostRecorded {
		own.Groups = nil
	}
	i := slices.IndexFunc(d, func(one Delegate) bool { return one.Account == sender.Username })
	named, known, err := crdv1.AuthorOf(annotations)
	if i < 0 || err == nil && (!known || named.User == sender.Username) {
		return own, sender, nil
	}
	prefix := d[i].Prefix
	foreign := func(name string) bool { return !strings.HasPrefix(name, prefix) }
	switch kept := annotations[crdv1.AnnotationAuthor] == before[crdv1.AnnotationAuthor]; {
	case err == nil && !foreign(named.User) && !slices.ContainsFunc(named.Groups, foreign):
		return named, authenticationv1.UserInfo{Username: named.User, Groups: named.Groups}, nil
	case kept: // The delegate names no user: the annotation is from an earlier change.
		return own, sender, nil
	case err != nil:
		return own, sender, fmt.Errorf("%w: write a JSON object with user and groups", err)
	default:
		return own, sender, fmt.Errorf("annotation %s names user %q with groups %q, and %s can only name users and groups that begin with %q (%s)",
			crdv1.AnnotationAuthor, named.User, named.Groups, sender.Username, prefix, SettingDelegates)
	}
}

// errUnrecorded refuses an object that reached the validating webhook without its author.
var errUnrecorded = errors.New("annotation " + crdv1.AnnotationAuthor + " does not name the author of this change: the mutating webhook " +
	"author.signadot.com was not called, or another admission webhook changed the object after it. Install the chart again, or exclude signadot.com from the other webhook")

// attribute returns the request as one of its author. A change that makes the
// sender the author has to come with that author recorded.
func (d Delegates) attribute(req *admissionv1.AdmissionRequest, in Input) (*admissionv1.AdmissionRequest, error) {
	after, is := in.Object.(crdv1.Object)
	if !is {
		return req, nil
	}
	var before map[string]string
	if in.Before != nil {
		before = in.Before.GetAnnotations()
	}
	author, user, err := d.AuthorOf(req.UserInfo, after.GetAnnotations(), before)
	if err != nil {
		return req, err
	}
	if in.Change.Author && after.GetAnnotations()[crdv1.AnnotationAuthor] != author.String() {
		return req, errUnrecorded
	}
	attributed := *req
	attributed.UserInfo = user
	return &attributed, nil
}

// mostTold is how many rights a refusal names. No further ones are asked about then.
const mostTold = 5

// Refusal returns the message to the author about the rights that are lacking; empty when
// none is.
func Refusal(lacking []Want) string {
	var out []string
	for _, w := range lacking[:min(len(lacking), mostTold)] {
		text := fmt.Sprintf("you may not %s, so you cannot %s (%s): ask for that right", w.Access, w.Purpose, w.At)
		if w.Instead != "" {
			text += ", or " + w.Instead
		}
		out = append(out, text)
	}
	if len(lacking) > mostTold {
		out = append(out, "and more rights are lacking")
	}
	return strings.Join(out, "; ")
}

// String names the right as kubectl auth can-i does.
func (a Access) String() string {
	text := a.Verb + " " + a.Resource
	if a.Group != "" {
		text += "." + a.Group
	}
	switch {
	case a.Name != "":
		text += fmt.Sprintf(" %q", a.Name)
	case a.Verb != "create":
		text = a.Verb + " all " + strings.TrimPrefix(text, a.Verb+" ")
	}
	if a.Namespace != "" {
		text += " in namespace " + a.Namespace
	}
	return text
}
