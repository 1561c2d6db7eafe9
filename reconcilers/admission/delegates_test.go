package admission_test

import (
	"strings"
	"testing"

	authenticationv1 "k8s.io/api/authentication/v1"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/admission"
)

func TestWrongDelegatesAreNamed(t *testing.T) {
	const account = "system:serviceaccount:a:b"
	for says, d := range map[string]admission.Delegates{
		"":                                  {{Account: account, Prefix: "agent:"}, {Account: account + "c", Prefix: "agent:"}},
		`delegates[0].account is "ada"`:     {{Account: "ada", Prefix: "agent:"}},
		"delegates[1].account: " + account:  {{Account: account, Prefix: "a:"}, {Account: account, Prefix: "b:"}},
		`delegates[0].prefix is ""`:         {{Account: account}},
		`delegates[0].prefix is "sys"`:      {{Account: account, Prefix: "sys"}},
		`delegates[0].prefix is "system:m"`: {{Account: account, Prefix: "system:m"}},
	} {
		if err := d.Validate(); (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%+v: %v, want %q", d, err, says)
		}
	}
}

// An object has 256 KiB for all its annotations.
func TestAnAuthorOfVeryManyGroupsIsRecordedWithoutThem(t *testing.T) {
	sender := authenticationv1.UserInfo{Username: "ada", Groups: []string{strings.Repeat("g", 40<<10)}}
	author, user, err := admission.Delegates{}.AuthorOf(sender, nil, nil)
	if err != nil || author.String() != (crdv1.Author{User: "ada"}).String() || len(user.Groups) != 1 {
		t.Errorf("%d bytes, asked with %d groups: %v", len(author.String()), len(user.Groups), err)
	}
}
