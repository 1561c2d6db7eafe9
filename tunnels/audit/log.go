package audit

import (
	"bytes"
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"switchyard.dev/eventbus/lists"
	"switchyard.dev/eventbus/records"
	"switchyard.dev/eventbus/wake"
)

// Errors of Begin.
var (
	// ErrFull: the maximum number of connections is open.
	ErrFull = errors.New("the proxy has the maximum number of connections")
	// ErrClosed: the log is closed.
	ErrClosed = errors.New("the proxy ends")
)

// Bounds of the queue of a sink: the maximum number of records, and that in one Append.
const (
	maxQueued = 16384
	atOnce    = 1024
)

// Config configures a Log.
type Config struct {
	// Dir is the folder of the journal. Required.
	Dir string
	// Out is the log. Required.
	Out io.Writer
	// Sinks receive the records too. One that does not keep up loses some, which is counted and
	// logged: the log has them.
	Sinks []Sink
	// Proxy is the name of the proxy's pod.
	Proxy string
	// Most bounds the connections that are open. Default: 65536.
	Most int
	// JournalBytes is by how much the journal may grow. Default: 16 MiB.
	JournalBytes int64
	// Logger logs errors. Default: none.
	Logger *slog.Logger
	// Metrics has the numbers. Default: none.
	Metrics prometheus.Registerer
}

// Log records connections. It is safe for concurrent use.
type Log struct {
	cfg   Config
	sinks []*records.Queue[Record]
	stop  context.CancelFunc
	ended sync.WaitGroup
	syncs prometheus.Counter

	mu     sync.Mutex
	open   map[string]Connection
	closed bool
	// waiting are records that are not written yet; wake is sent when there are some.
	waiting []*entry
	wake    chan struct{}
	// unlogged are last records that could not be written to the log; they are written with the
	// next batch. Only the writer uses them.
	unlogged []*entry
}

// entry is a record to write.
type entry struct {
	record Record
	done   chan error // nil: no caller waits
}

// Open begins a log. Open connections in an existing journal get their last record.
func Open(cfg Config) (*Log, error) {
	if cfg.Dir == "" || cfg.Out == nil {
		return nil, errors.New("audit: Dir and Out are both needed")
	}
	cfg.Most = cmp.Or(cfg.Most, 65536)
	cfg.JournalBytes = cmp.Or(cfg.JournalBytes, 16<<20)
	cfg.Logger = cmp.Or(cfg.Logger, slog.New(slog.DiscardHandler))
	died, skipped, err := readOpen(cfg.Dir)
	if err != nil {
		return nil, err
	}
	if skipped > 0 {
		cfg.Logger.Warn("lines of the journal of connections cannot be read; one is torn when the process before was killed", "lines", skipped)
	}
	ctx, stop := context.WithCancel(context.Background())
	l := &Log{cfg: cfg, stop: stop, open: map[string]Connection{}, wake: make(chan struct{}, 1),
		syncs: prometheus.NewCounter(prometheus.CounterOpts{Name: "switchyard_tunnel_audit_syncs_total", Help: "How often the journal of connections was synced."})}
	lost := prometheus.NewCounter(prometheus.CounterOpts{Name: "switchyard_tunnel_audit_lost_total", Help: "Records that a sink beside the log has not got."})
	if cfg.Metrics != nil {
		if err := errors.Join(cfg.Metrics.Register(l.syncs), cfg.Metrics.Register(lost)); err != nil {
			stop()
			return nil, fmt.Errorf("audit: %w", err)
		}
	}
	l.sinks = lists.Map(cfg.Sinks, func(s Sink) *records.Queue[Record] {
		return records.New(ctx, records.Config[Record]{
			Sink: s, Maximum: maxQueued, AtOnce: atOnce, Lost: func(r []Record) { lost.Add(float64(len(r))) },
			Name: "records of connections", Otherwise: "the log has them", Logger: cfg.Logger,
		})
	})
	j := &journal{dir: cfg.Dir}
	if err := l.settle(died, j); err != nil {
		stop()
		return nil, err
	}
	l.ended.Go(func() { l.write(j) })
	return l, nil
}

// settle writes the last records of connections of a terminated proxy, and then begins the
// journal.
func (l *Log) settle(died []Connection, j *journal) error {
	now := time.Now()
	records := lists.Map(died, func(c Connection) Record { return Record{c, &End{At: now, How: ProxyDied}} })
	if err := l.emit(records); err != nil {
		return err
	}
	return j.begin(nil)
}

// Opened is a connection that has begun.
type Opened struct {
	log *Log
	id  string
}

// Begin records that a connection begins. No byte may pass before it returns, nor when it returns
// an error.
func (l *Log) Begin(ctx context.Context, c Connection) (*Opened, error) {
	c.ID, c.Began, c.Proxy = rand.Text(), time.Now(), l.cfg.Proxy
	e := &entry{record: Record{Connection: c}, done: make(chan error, 1)}
	l.mu.Lock()
	if err := l.admits(); err != nil {
		l.mu.Unlock()
		return nil, err
	}
	l.open[c.ID] = c
	l.enqueue(e)
	l.mu.Unlock()
	o := &Opened{l, c.ID}
	select {
	case err := <-e.done:
		if err != nil {
			return nil, err
		}
		return o, nil
	case <-ctx.Done():
		// It may reach the disk at any moment.
		o.End(0, 0, "given up before it began")
		return nil, fmt.Errorf("record the connection: %w", ctx.Err())
	}
}

// admits returns ErrClosed or ErrFull if no connection may begin. l.mu is held.
func (l *Log) admits() error {
	if l.closed {
		return ErrClosed
	}
	// Connections given up before they began have two waiting records, and are not open.
	if len(l.open) >= l.cfg.Most || len(l.waiting) >= 2*l.cfg.Most {
		return ErrFull
	}
	return nil
}

// maxHow bounds the description of the end, in bytes: a workstation may have chosen it, and a
// record that no sink accepts would block all later ones.
const maxHow = 1 << 10

// End records that the connection has ended: the bytes sent by the client, the bytes returned,
// and how it ended. Only the first call has an effect.
func (o *Opened) End(sent, received int64, how string) {
	how = strings.ToValidUTF8(how[:min(len(how), maxHow)], "")
	o.log.mu.Lock()
	defer o.log.mu.Unlock()
	c, is := o.log.open[o.id]
	if !is {
		return
	}
	delete(o.log.open, o.id)
	o.log.enqueue(&entry{record: Record{c, &End{At: time.Now(), Sent: sent, Received: received, How: how}}})
}

// Refuse records an attempt that opened no connection, with the reason. It does not wait. The
// error is that too many records wait, or that the log is closed.
func (l *Log) Refuse(c Connection, why string) error {
	now := time.Now()
	c.ID, c.Began, c.Proxy = rand.Text(), now, l.cfg.Proxy
	why = strings.ToValidUTF8(why[:min(len(why), maxHow)], "")
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.admits(); err != nil {
		return err
	}
	l.enqueue(&entry{record: Record{c, &End{At: now, How: why, Refused: true}}})
	return nil
}

// ID is the connection's ID.
func (o *Opened) ID() string { return o.id }

func (l *Log) forget(id string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.open, id)
}

// enqueue queues a record. l.mu is held. The queue is bounded by admits.
func (l *Log) enqueue(e *entry) {
	l.waiting = append(l.waiting, e)
	wake.Notify(l.wake)
}

// Close writes the queued records, and gives open connections their last record.
func (l *Log) Close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	for id, c := range l.open {
		delete(l.open, id)
		l.enqueue(&entry{record: Record{c, &End{At: time.Now(), How: "the proxy ended"}}})
	}
	l.enqueue(nil)
	l.mu.Unlock()
	l.ended.Wait()
	for _, s := range l.sinks {
		s.Close()
	}
	l.stop()
}

// write writes queued records until the log is closed.
func (l *Log) write(j *journal) {
	defer j.close()
	for range l.wake {
		l.mu.Lock()
		batch := l.waiting
		l.waiting = nil
		l.mu.Unlock()
		last := len(batch) > 0 && batch[len(batch)-1] == nil
		batch = slices.DeleteFunc(batch, func(e *entry) bool { return e == nil })
		l.commit(j, batch)
		if last {
			return
		}
	}
}

// commit writes a batch: last records to the log, all to the journal, first records to the log.
// No connection begins without its first record; last records that could not be logged stay open
// in the journal, and are logged with the next batch.
func (l *Log) commit(j *journal, batch []*entry) {
	batch = append(l.unlogged, batch...)
	l.unlogged = nil
	var first, last []Record
	var begins, ends bytes.Buffer
	var err error
	for _, e := range batch {
		if r := e.record; r.End != nil {
			last = append(last, r)
			err = errors.Join(err, write(&ends, line{Ended: r.ID}))
		} else {
			first = append(first, r)
			err = errors.Join(err, write(&begins, line{Begin: &r.Connection}))
		}
	}
	unlogged := l.emit(last)
	if unlogged != nil {
		ends.Reset()
		l.unlogged = slices.DeleteFunc(slices.Clone(batch), func(e *entry) bool { return e.record.End == nil })
	}
	// A connection that ends in the batch in which it begins appears in this order.
	if err == nil {
		err = l.keep(j, append(begins.Bytes(), ends.Bytes()...), len(first) > 0)
	}
	if err == nil {
		if err = l.emit(first); err != nil {
			j.close() // the next one begins without them
		}
	}
	if failed := errors.Join(err, unlogged); failed != nil {
		l.cfg.Logger.Error("connections cannot be recorded, so none begins", "error", failed)
	}
	for _, e := range batch {
		if e.done == nil {
			continue
		}
		if err != nil {
			l.forget(e.record.ID)
		}
		e.done <- err
	}
}

// keep appends lines to the journal, or rewrites it when it has grown too much: the connections
// that are open then include those of the lines.
func (l *Log) keep(j *journal, text []byte, sync bool) error {
	if sync {
		l.syncs.Inc()
	}
	if !j.grown(l.cfg.JournalBytes) {
		return j.append(text, sync)
	}
	l.mu.Lock()
	open := slices.Collect(maps.Values(l.open))
	// Those with a last record that is not written yet are open as far as the journal is
	// concerned.
	for _, e := range slices.Concat(l.unlogged, l.waiting) {
		if e != nil && e.record.End != nil {
			open = append(open, e.record.Connection)
		}
	}
	l.mu.Unlock()
	return j.begin(open)
}

// emit writes records to the log, and passes them to the sinks.
func (l *Log) emit(records []Record) error {
	if len(records) == 0 {
		return nil
	}
	var text bytes.Buffer
	for _, r := range records {
		if err := writeLog(&text, r); err != nil {
			return err
		}
	}
	if _, err := l.cfg.Out.Write(text.Bytes()); err != nil {
		return fmt.Errorf("write the log of connections: %w", err)
	}
	for _, s := range l.sinks {
		s.Add(records...)
	}
	return nil
}
