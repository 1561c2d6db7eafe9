package link

import (
	"context"
	"crypto/sha256"
	"crypto/x509"
	"encoding/base64"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tests/browser"
	"switchyard.dev/tests/selfsigned"
	"switchyard.dev/tools/cache"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/local"
)

// previewDomain is the preview domain of the organisation.
const previewDomain = "preview.example.net"

// libraries are the files of other hosts that HotROD's page uses.
var libraries = map[string]browser.Script{
	"https://cdn.jsdelivr.net/npm/jquery@3.7.0/dist/jquery.min.js":          {Package: "jquery@3.7.0", File: "dist/jquery.min.js", Sum: "d8f9afbf492e4c139e9d2bcb9ba6ef7c14921eb509fb703bc7a3f911b774eff8"},
	"https://maxcdn.bootstrapcdn.com/bootstrap/3.3.7/css/bootstrap.min.css": {Package: "bootstrap@3.3.7", File: "dist/css/bootstrap.min.css", Sum: "f75e846cc83bd11432f4b1e21a45f31bc85283d11d372f7b19accd1bf6a2635c"},
	"https://maxcdn.bootstrapcdn.com/bootstrap/3.3.7/js/bootstrap.min.js":   {Package: "bootstrap@3.3.7", File: "dist/js/bootstrap.min.js", Sum: "53964478a7c634e8dad34ecc303dd8048d00dce4993906de1bacf67f663486ef"},
}

// PrepareHosted makes the cluster with Switchyard and HotROD, and the browser of the developer.
func PrepareHosted(ctx context.Context, c demo.Config) error {
	if err := browser.Prepare(ctx); err != nil {
		return err
	}
	if _, err := fetched(ctx); err != nil {
		return err
	}
	return local.Prepare(ctx, c)
}

// fetched returns the paths of the libraries by their URLs.
func fetched(ctx context.Context) (files map[string]string, err error) {
	files = map[string]string{}
	for url, library := range libraries {
		if files[url], err = library.Fetch(ctx); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// certify creates the Secret with the certificate of previews.
func (h *hosted) certify(ctx context.Context) error {
	pair, err := selfsigned.New("*." + previewDomain)
	if err != nil {
		return err
	}
	if err := pair.Write(h.file("previews")); err != nil {
		return err
	}
	at := func(name string) string { return "--from-file=" + filepath.Join(h.file("previews"), name) }
	err = tool(ctx, "kubectl", "-n", "controlplane", "create", "secret", "generic", "previews", at(trust.CertFile), at(trust.KeyFile))
	return err
}

// previewKey returns the key of the certificate of previews, as in browser.Config.
func (h *hosted) previewKey() (string, error) {
	text, err := os.ReadFile(filepath.Join(h.file("previews"), trust.CertFile))
	if err != nil {
		return "", err
	}
	block, _ := pem.Decode(text)
	if block == nil {
		return "", errors.New("the certificate of previews is not PEM")
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(c.RawSubjectPublicKeyInfo)
	return base64.StdEncoding.EncodeToString(sum[:]), nil
}

// preview opens the preview of the sandbox in a browser on the developer's machine, which resolves its name to the
// Service for previews, and orders a car.
func (h *hosted) preview(ctx context.Context) (err error) {
	url := fmt.Sprintf("https://frontend--%s.%s/", hostedName, previewDomain)
	h.step("a browser on the developer's machine opens the preview %s: no header, no client", url)
	accepted, err := h.previewKey()
	if err != nil {
		return err
	}
	b, err := browser.Start(ctx, browser.Config{
		Hosts: map[string]string{"*." + previewDomain: h.previews + ":443"}, Keys: []string{accepted}, Command: []string{"ip", "netns", "exec", h.laptop.Name},
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, b.Close()) }()
	key, err := os.ReadFile(h.file("api.key"))
	if err != nil {
		return err
	}
	files, err := fetched(ctx)
	if err != nil {
		return err
	}
	intercept := browser.Intercept{Files: files, Pattern: url + "*", Headers: map[string]string{"Signadot-Api-Key": strings.TrimSpace(string(key))}}
	for _, err := range []error{b.Look(browser.View{Width: 1000, Height: 600}), b.Intercept(intercept), b.Open(url), b.Click("[data-customer='123']")} {
		if err != nil {
			return err
		}
	}
	if err := h.until(ctx, "a click on a customer", func() (text string, is bool, err error) {
		err = b.Evaluate("document.getElementById('hotrod-log').innerText", &text)
		return text, strings.Contains(text, "arriving in"), err
	}); err != nil {
		return err
	}
	if err := h.until(ctx, "customer 900, which the fork alone knows", func() (text string, is bool, err error) {
		err = b.Evaluate("fetch('/dispatch?customer=900').then(a => a.text())", &text)
		return strings.TrimSpace(text), strings.Contains(text, "Driver"), err
	}); err != nil {
		return err
	}
	picture := filepath.Join(cache.Dir(), "demo-controlplane.png")
	fmt.Printf("   the page:  %s\n", picture)
	return b.Screenshot(picture)
}
