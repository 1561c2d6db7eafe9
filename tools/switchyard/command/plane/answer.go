package plane

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/url"

	v2 "switchyard.dev/protos/controlplane/v2"
	"switchyard.dev/tools/switchyard/command/exit"
)

// maxAnswer bounds an answer: a list of thousands of sandboxes.
const maxAnswer = 256 << 20

// Refused is the error object of a control plane.
type Refused struct {
	Status int
	// Text is its problem, for people. It begins with the path of a field if that is wrong.
	Text string
}

// Error implements error.
func (r *Refused) Error() string { return r.Text }

// StatusOf returns the status of an error that is a Refused; 0 for others.
func StatusOf(err error) int {
	if r := (*Refused)(nil); errors.As(err, &r) {
		return r.Status
	}
	return 0
}

// Answer returns the value of an answer, for the results of a method of v2.Client. An error of the control
// plane is a *Refused, with the exit code of the program.
func Answer[T any](answer *http.Response, err error) (out T, _ error) {
	body, err := Body(answer, err)
	if err != nil {
		return out, err
	}
	defer body.Close()
	host := answer.Request.URL.Host
	text, err := io.ReadAll(io.LimitReader(body, maxAnswer))
	if err != nil {
		return out, unreached(answer.Request, err)
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return out, exit.Unavailable.Errorf("%s answers, but not as the API of a control plane (%w): check --control-plane", host, err)
	}
	return out, nil
}

// Body returns the body of an answer, as Answer its value. The caller closes it.
func Body(answer *http.Response, err error) (io.ReadCloser, error) {
	if err != nil {
		return nil, err
	}
	if answer.StatusCode == http.StatusOK {
		return answer.Body, nil
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	if err != nil {
		return nil, unreached(answer.Request, err)
	}
	return nil, refused(answer, text)
}

// refused returns the error of an answer other than 200.
func refused(answer *http.Response, text []byte) error {
	host := answer.Request.URL.Host
	var object v2.ErrorResponse
	if err := json.Unmarshal(text, &object); err != nil || object.Error == "" {
		return exit.Unavailable.Errorf("%s answers, but not as the API of a control plane (%s): check --control-plane", host, answer.Status)
	}
	why := &Refused{answer.StatusCode, object.Error}
	switch status := answer.StatusCode; {
	case status == http.StatusUnauthorized:
		return exit.Failed.Errorf("the control plane at %s does not accept the API key: check %s or the file of --api-key-file, or create another key (%w)", host, KeyVariable, why)
	case status == http.StatusForbidden:
		return exit.Failed.Errorf("the control plane at %s refuses this: %w. Use the organisation of the API key (omit --organisation), or ask an administrator of it for the role", host, why)
	case status == http.StatusNotImplemented:
		return exit.Unavailable.Errorf("%w: use a kubeconfig, without --control-plane", why)
	case status == http.StatusBadRequest:
		return exit.Usage.Errorf("%w", why)
	case status == http.StatusNotFound || status == http.StatusConflict:
		return exit.No.Errorf("%w", why)
	case status == http.StatusTooManyRequests, status > http.StatusNotImplemented:
		return exit.Unavailable.Errorf("the control plane at %s cannot answer now: %w. Try again", host, why)
	}
	return exit.Failed.Errorf("the control plane at %s has failed: %w (request %s, for its log)", host, why, object.RequestID)
}

// unreached explains the error of a request without an answer. It does not have the request's URL.
func unreached(r *http.Request, err error) error {
	host := r.URL.Host
	if of := (*url.Error)(nil); errors.As(err, &of) {
		err = of.Err
	}
	var certificate *tls.CertificateVerificationError
	switch {
	case errors.Is(err, context.Canceled):
		return err
	case errors.Is(err, context.DeadlineExceeded):
		return exit.Unavailable.Errorf("the control plane at %s does not answer within --request-timeout: check --control-plane, and that no firewall is in between", host)
	case errors.As(err, &certificate):
		return exit.Unavailable.Errorf("the certificate of the control plane at %s cannot be verified (%w): name the file of its authority with --control-plane-ca, and a host that it is for in --control-plane", host, certificate.Err)
	}
	return exit.Unavailable.Errorf("the control plane at %s is not reached (%w): check --control-plane, and that no firewall is in between", host, err)
}
