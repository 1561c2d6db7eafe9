package link

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"switchyard.dev/eventbus/trust"
	"switchyard.dev/tools/demo"
	"switchyard.dev/tools/demo/resource"
)

const (
	// ordersName is the sandbox of orders.yaml, and shopPreview the host of its preview.
	ordersName  = "orders"
	shopPreview = "shop--" + ordersName + "." + previewDomain
	// readers is the runner group of the jobs that read the row.
	readers = "readers"
)

// rows are a sandbox with a store that a resource plugin creates, a row that is written there through the sandbox's
// preview, and its readers.
type rows struct {
	*hosted
	jobs rides
	// row is the content of the row.
	row      string
	readings []reading
}

type reading struct{ who, got, want string }

// run runs the scenario. The files of the jobs are in the folder of the developer.
func (r *rows) run(ctx context.Context) error {
	r.row = fmt.Sprintf("row-%x", time.Now().Unix())
	for _, act := range []func(context.Context) error{r.grant, r.begin, r.write, r.read, r.end} {
		if err := act(ctx); err != nil {
			return err
		}
	}
	return nil
}

// rightsInShop is the first of the organisation's rights, for the other namespace.
func rightsInShop() string {
	first, _, _ := strings.Cut(rights, "\n---\n")
	return strings.ReplaceAll(first, "namespace: hotrod", "namespace: shop")
}

// grant creates the rights of the organisation, and of the steps of the plugin, in namespace shop.
func (r *rows) grant(ctx context.Context) error {
	r.step("an administrator grants rights in namespace shop, of podinfo and its Redis, to the developers and to the steps of a plugin")
	if err := resource.Sample(r.file("plugin"), "kubernetes"); err != nil {
		return err
	}
	if _, err := demo.Kubectl(ctx, rightsInShop(), "apply", "-f", "-"); err != nil {
		return err
	}
	_, err := demo.Kubectl(ctx, "", "apply", "-f", filepath.Join(r.file("plugin"), "rbac.yaml"))
	return err
}

// begin applies the plugin, the sandbox and the runner group.
func (r *rows) begin(ctx context.Context) error {
	r.step("a sandbox with a store of its own: the plugin starts a Redis server, and the fork of podinfo uses it")
	if err := r.jobs.show("orders.yaml"); err != nil {
		return err
	}
	return r.jobs.each(ctx, [][]string{
		{"resourceplugin", "apply", "-f", "plugin/plugin.yaml"}, {"sandbox", "apply", "-f", "orders.yaml"},
		{"jobrunnergroup", "apply", "-f", "runners.yaml", "--set", "name=" + readers},
	})
}

// write writes the row through the preview of the sandbox.
func (r *rows) write(ctx context.Context) error {
	r.step("curl on the developer's machine, with the API key and no routing key, writes a row through the preview of the sandbox")
	key, err := os.ReadFile(r.file("api.key"))
	if err != nil {
		return err
	}
	options := fmt.Sprintf("header = \"Signadot-Api-Key: %s\"\ncacert = \"%s\"\nresolve = \"%s:443:%s\"\nwrite-out = \" [%%{http_code}]\"\n",
		strings.TrimSpace(string(key)), filepath.Join(r.file("previews"), trust.BundleFile), shopPreview, r.previews)
	if err := os.WriteFile(r.file("previewrc"), []byte(options), 0o600); err != nil { //nolint:gosec // a folder of this test
		return err
	}
	return r.until(ctx, "developer$ curl --data "+r.row+" https://"+shopPreview+"/cache/row", func() (string, bool, error) {
		said, err := r.curl(ctx, "--data", r.row)
		return said, said == "[202]", err
	})
}

// curl sends a request to the row's URL at the preview, and returns the body and the status.
func (r *rows) curl(ctx context.Context, args ...string) (string, error) {
	said, err := r.on(ctx, append([]string{"curl", "-K", r.file("previewrc"), "-sS", "--max-time", "10", "https://" + shopPreview + "/cache/row"}, args...)...)
	return strings.TrimSpace(said), err
}

// read reads the row from both stores, through the preview, and in jobs.
func (r *rows) read(ctx context.Context) error {
	r.step("the row is read: through the preview, by a job against the sandbox, and by the same job against the baseline")
	if err := r.jobs.show("row.yaml"); err != nil {
		return err
	}
	found, missing := r.row+" [200]", "[404]"
	seen, err := r.curl(ctx)
	if err != nil {
		return err
	}
	fmt.Printf("   developer$ curl https://%s/cache/row\n   %s\n", shopPreview, seen)
	r.readings = append(r.readings, reading{"the preview of the sandbox", seen, found})
	for _, c := range []struct{ who, sandbox, want string }{{"a job against the sandbox", ordersName, found}, {"a job against the baseline", "", missing}} {
		out, _, err := r.jobs.switchyard(ctx, "job", "submit", "-f", "row.yaml", "--set", "group="+readers, "--set", "sandbox="+c.sandbox, "--attach")
		if err != nil {
			return err
		}
		r.readings = append(r.readings, reading{c.who, strings.TrimSpace(out), c.want})
	}
	for _, c := range []struct{ who, server, want string }{
		{"the Redis of the plugin", "redis-" + ordersName, r.row}, {"the Redis of the baseline", "redis", ""},
	} {
		text, err := demo.Kubectl(ctx, "", "exec", "-n", "shop", "deployment/"+c.server, "--", "redis-cli", "--raw", "GET", "row")
		if err != nil {
			return err
		}
		r.readings = append(r.readings, reading{c.who, strings.TrimSpace(text), c.want})
	}
	return nil
}

// end deletes the sandbox, the runner group and the plugin.
func (r *rows) end(ctx context.Context) error {
	r.step("the sandbox is deleted, and its store with it")
	return r.jobs.each(ctx, [][]string{{"jobrunnergroup", "delete", readers}, {"sandbox", "delete", ordersName}, {"resourceplugin", "delete", "kubernetes"}})
}

// remove takes the organisation's rights in namespace shop away.
func (r *rows) remove(ctx context.Context) error {
	_, err := demo.Kubectl(ctx, rightsInShop(), "delete", "--ignore-not-found", "-f", "-")
	return err
}

// conclude prints the result of each reader. The error names the wrong ones.
func (r *rows) conclude() (err error) {
	fmt.Printf("\nThe row %s was written through the preview of the sandbox, and is read by:\n", r.row)
	for _, a := range r.readings {
		verdict := "holds"
		if a.got != a.want {
			verdict = "wrong"
			err = errors.Join(err, fmt.Errorf("%s read %q, not %q", a.who, a.got, a.want))
		}
		fmt.Printf("   %-27s %-20s (expected: %s): %s\n", a.who, orNothing(a.got), orNothing(a.want), verdict)
	}
	return err
}

// orNothing returns a text, or a word for an empty one.
func orNothing(text string) string {
	if text == "" {
		return "nothing"
	}
	return text
}
