package workflows

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/tests/traffic"
	"switchyard.dev/tests/wait"
	"switchyard.dev/tools/demo"
)

//go:embed testdata
var testdata embed.FS

// shop is what the samples work on, as the tests see it.
type shop struct {
	t                  *testing.T
	podinfo, customers string
	client             *http.Client
	queue              jetstream.JetStream
}

// open makes what the samples work on, or finds it.
func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{t: t, client: traffic.NewClient()}
	page, err := testdata.ReadFile("testdata/customers.py")
	s.must(err)
	s.kubectl(configMap("customers", "data", "customers.py", string(page)), "apply", "-f", "-")
	s.kubectl(configMap("charts", "binaryData", "redis-1.0.0.tgz", base64.StdEncoding.EncodeToString(s.chart())), "apply", "-f", "-")
	objects, err := testdata.ReadFile("testdata/shop.yaml")
	s.must(err)
	s.kubectl(strings.ReplaceAll(string(objects), "IMAGES", "tests"), "apply", "-f", "-")
	s.kubectl("", "rollout", "status", "deployment", "-n", "shop", "-l", "app", "--timeout=180s")
	s.podinfo, s.customers = s.url("podinfo", 9898), s.url("customers", 8080)
	s.psql("postgres", "CREATE TABLE IF NOT EXISTS customers (name text); DELETE FROM customers; INSERT INTO customers VALUES ('Zoe')")
	s.streams()
	return s
}

func (s *shop) must(err error) {
	s.t.Helper()
	if err != nil {
		s.t.Fatal(err)
	}
}

// kubectl runs kubectl and fails the test when it does.
func (s *shop) kubectl(stdin string, args ...string) string {
	s.t.Helper()
	out, err := demo.Kubectl(s.t.Context(), stdin, args...)
	s.must(err)
	return out
}

// url returns where a Service of the shop is reached.
func (s *shop) url(service string, port int) string {
	s.t.Helper()
	url, err := demo.ServiceURL(s.t.Context(), "shop", service, port)
	s.must(err)
	return url
}

// configMap returns a ConfigMap of the shop with one file.
func configMap(name, field, file, content string) string {
	text, _ := json.Marshal(map[string]any{ // Of texts alone.
		"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name, "namespace": "shop"},
		field: map[string]any{file: content},
	})
	return string(text)
}

// chart returns the chart of testdata/redis as Helm packs it.
func (s *shop) chart() []byte {
	s.t.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	out := tar.NewWriter(zipped)
	s.must(fs.WalkDir(testdata, "testdata/redis", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		content, err := testdata.ReadFile(path)
		if err != nil {
			return err
		}
		if err := out.WriteHeader(&tar.Header{Name: strings.TrimPrefix(path, "testdata/"), Mode: 0o644, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err = out.Write(content)
		return err
	}))
	s.must(out.Close())
	s.must(zipped.Close())
	return packed.Bytes()
}

// psql asks the PostgreSQL server itself.
func (s *shop) psql(database, query string) string {
	s.t.Helper()
	out := s.kubectl("", "exec", "-n", "shop", "deployment/postgres", "--", "psql", "-h", "127.0.0.1", "-U", "postgres", "-qtAc", query, database)
	return strings.TrimSpace(out)
}

// streams connects to the NATS server, and makes the stream of the baseline.
func (s *shop) streams() {
	s.t.Helper()
	conn, err := nats.Connect(strings.Replace(s.url("nats", 4222), "http:", "nats:", 1))
	s.must(err)
	s.t.Cleanup(conn.Close)
	s.queue, err = jetstream.New(conn)
	s.must(err)
	_, err = s.queue.CreateOrUpdateStream(s.t.Context(), jetstream.StreamConfig{Name: "parcels", Subjects: []string{"parcels.>"}})
	s.must(err)
	_, err = s.queue.CreateOrUpdateConsumer(s.t.Context(), "parcels", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy})
	s.must(err)
}

// worked returns how many messages of a stream were worked on.
func (s *shop) worked(stream string) (uint64, error) {
	consumer, err := s.queue.Consumer(s.t.Context(), stream, "work")
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(s.t.Context())
	if err != nil {
		return 0, err
	}
	return info.AckFloor.Consumer, nil
}

// answers waits until a URL is answered so, with a routing key unless that is empty. A status
// other than 200 stands before the answer.
func (s *shop) answers(url, key, want string) {
	s.t.Helper()
	var headers [][2]string
	if key != "" {
		headers = append(headers, [2]string{"Baggage", "sd-routing-key=" + key})
	}
	wait.Eventually(s.t, 30*time.Second, fmt.Sprintf("%s with key %q", url, key), func() error {
		a, err := traffic.Get(s.t.Context(), s.client, url, headers...)
		if err != nil {
			return err
		}
		got := strings.TrimSpace(string(a.Body))
		if a.Status != http.StatusOK {
			got = strings.TrimSpace(fmt.Sprintf("%d %s", a.Status, got))
		}
		if !strings.Contains(got, want) {
			return fmt.Errorf("%q, not %q", got, want)
		}
		return nil
	})
}

// writes writes into podinfo's cache.
func (s *shop) writes(key, routingKey, value string) {
	s.t.Helper()
	request, err := http.NewRequestWithContext(s.t.Context(), http.MethodPost, s.podinfo+"/cache/"+key, strings.NewReader(value))
	s.must(err)
	request.Header.Set("Baggage", "sd-routing-key="+routingKey)
	response, err := s.client.Do(request)
	s.must(err)
	s.must(response.Body.Close())
	if response.StatusCode != http.StatusAccepted {
		s.t.Fatalf("podinfo answers %d to a write", response.StatusCode)
	}
}
