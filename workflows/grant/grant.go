// Package grant is the signed statement by which the manager assigns an attempt of a unit to one
// pod. The manager signs it with the key of the operator's certificate authority and stores it in
// the status beside the pod's UID; the IO context server verifies it with the authorities that it
// trusts for TLS. So a user who can write that status cannot name another pod (decision record
// 0050).
package grant

import (
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"switchyard.dev/workflows/execunit"
)

// Grant assigns an attempt of a unit to a pod.
type Grant struct {
	// Lifecycle is the UID of the SignadotObjectLifecycleMethods.
	Lifecycle types.UID `json:"lifecycle"`
	// Unit is the name of the unit, Attempt the number of the attempt.
	Unit    string `json:"unit"`
	Attempt int32  `json:"attempt"`
	// Form is the hash of the unit that the pod was created for (engine.Form): a unit that is changed
	// later gives the pod neither its script nor its inputs.
	Form string `json:"form"`
	// Namespace, Pod and PodUID identify the pod.
	Namespace string `json:"namespace"`
	Pod       string `json:"pod"`
	PodUID    string `json:"podUID"`
	// Rights are those that the author of the unit needed, in the form in which the pod runs it.
	Rights execunit.Rights `json:"rights"`
}

// Signer signs a message with the key of the authority: ECDSA with SHA-256, in ASN.1.
type Signer func(message []byte) (signature []byte, err error)

// purpose precedes each signed message: the key signs certificates too, which begin otherwise.
const purpose = "switchyard.dev/unit-grant/v1\n"

var encoding = base64.RawURLEncoding

// Sign returns a grant with its signature, as text.
func Sign(g Grant, by Signer) (string, error) {
	content, err := json.Marshal(g)
	if err != nil {
		return "", fmt.Errorf("encode the grant of pod %s/%s: %w", g.Namespace, g.Pod, err)
	}
	signature, err := by(append([]byte(purpose), content...))
	if err != nil {
		return "", fmt.Errorf("sign the grant of pod %s/%s: %w", g.Namespace, g.Pod, err)
	}
	return encoding.EncodeToString(content) + "." + encoding.EncodeToString(signature), nil
}

// Content returns the grant in a text without verifying its signature: use it only where a forged
// grant makes a check stricter.
func Content(text string) (Grant, error) {
	first, _, _ := strings.Cut(text, ".")
	content, err := encoding.DecodeString(first)
	if err != nil {
		return Grant{}, ErrNotSigned
	}
	var g Grant
	if err := json.Unmarshal(content, &g); err != nil {
		return Grant{}, fmt.Errorf("read a grant: %w", err)
	}
	return g, nil
}

// ErrNotSigned is the error for a text that none of the authorities has signed as a grant.
var ErrNotSigned = errors.New("the grant is not signed by the operator")

// Verify returns the grant of a text that one of the authorities has signed; ErrNotSigned for any
// other.
func Verify(text string, authorities []*x509.Certificate) (Grant, error) {
	first, second, _ := strings.Cut(text, ".")
	content, err := encoding.DecodeString(first)
	if err != nil {
		return Grant{}, ErrNotSigned
	}
	signature, err := encoding.DecodeString(second)
	if err != nil {
		return Grant{}, ErrNotSigned
	}
	for _, authority := range authorities {
		if authority.CheckSignature(x509.ECDSAWithSHA256, append([]byte(purpose), content...), signature) != nil {
			continue
		}
		return Content(text)
	}
	return Grant{}, ErrNotSigned
}
