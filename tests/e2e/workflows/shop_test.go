package workflows

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"embed"
	"encoding/base64"
	"encoding/json"
	"io/fs"
	"strings"
	"testing"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"switchyard.dev/tests/e2e/sample"
)

//go:embed testdata
var testdata embed.FS

// shop is what the samples work on, as the tests see it.
type shop struct {
	*sample.Shop
	customers string
	queue     jetstream.JetStream
}

// open makes what the samples work on, or finds it.
func open(t *testing.T) *shop {
	t.Helper()
	s := &shop{Shop: sample.Open(t)}
	page, err := testdata.ReadFile("testdata/customers.py")
	s.Must(err)
	s.Kubectl(configMap("customers", "data", "customers.py", string(page)), "apply", "-f", "-")
	s.Kubectl(configMap("charts", "binaryData", "redis-1.0.0.tgz", base64.StdEncoding.EncodeToString(s.chart())), "apply", "-f", "-")
	objects, err := testdata.ReadFile("testdata/shop.yaml")
	s.Must(err)
	s.Kubectl(strings.ReplaceAll(string(objects), "IMAGES", "tests"), "apply", "-f", "-")
	s.Kubectl("", "rollout", "status", "deployment", "-n", "shop", "-l", "app", "--timeout=180s")
	s.customers = s.URL("customers", 8080)
	s.psql("postgres", "CREATE TABLE IF NOT EXISTS customers (name text); DELETE FROM customers; INSERT INTO customers VALUES ('Zoe')")
	s.streams()
	return s
}

// in returns the shop as another test sees it.
func (s *shop) in(t *testing.T) *shop {
	other := *s
	other.Shop = s.Shop.In(t)
	return &other
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
	s.Helper()
	var packed bytes.Buffer
	zipped := gzip.NewWriter(&packed)
	out := tar.NewWriter(zipped)
	s.Must(fs.WalkDir(testdata, "testdata/redis", func(path string, entry fs.DirEntry, err error) error {
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
	s.Must(out.Close())
	s.Must(zipped.Close())
	return packed.Bytes()
}

// psql asks the PostgreSQL server itself.
func (s *shop) psql(database, query string) string {
	s.Helper()
	out := s.Kubectl("", "exec", "-n", "shop", "deployment/postgres", "--", "psql", "-h", "127.0.0.1", "-U", "postgres", "-qtAc", query, database)
	return strings.TrimSpace(out)
}

// streams connects to the NATS server, and makes the stream of the baseline.
func (s *shop) streams() {
	s.Helper()
	conn, err := nats.Connect(strings.Replace(s.URL("nats", 4222), "http:", "nats:", 1))
	s.Must(err)
	s.Cleanup(conn.Close)
	s.queue, err = jetstream.New(conn)
	s.Must(err)
	_, err = s.queue.CreateOrUpdateStream(s.Context(), jetstream.StreamConfig{Name: "parcels", Subjects: []string{"parcels.>"}})
	s.Must(err)
	_, err = s.queue.CreateOrUpdateConsumer(s.Context(), "parcels", jetstream.ConsumerConfig{Durable: "work", AckPolicy: jetstream.AckExplicitPolicy})
	s.Must(err)
}

// worked returns how many messages of a stream were worked on.
func (s *shop) worked(stream string) (uint64, error) {
	consumer, err := s.queue.Consumer(s.Context(), stream, "work")
	if err != nil {
		return 0, err
	}
	info, err := consumer.Info(s.Context())
	if err != nil {
		return 0, err
	}
	return info.AckFloor.Consumer, nil
}
