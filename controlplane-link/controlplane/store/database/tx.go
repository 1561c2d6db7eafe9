package database

import (
	"context"
	"database/sql"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"switchyard.dev/controlplane-link/controlplane/model"
)

// writeWithin bounds a write, which does not end with the request that it is for: a connection that
// is interrupted is closed.
const writeWithin = 30 * time.Second

// counters count the transactions that were begun for writes and for observations.
type counters struct{ writes, observations atomic.Uint64 }

// Transactions returns how many transactions were begun for writes, and for observations such as a
// status.
func (d *DB) Transactions() (writes, observations uint64) {
	return d.transactions.writes.Load(), d.transactions.observations.Load()
}

// ErrEnough is the error of a scan that ends a list before its row.
var ErrEnough = errors.New("enough rows")

// Querier is a database or a transaction.
type Querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Row is a row of a result. Scan takes the values that arguments can have, by a pointer.
type Row interface{ Scan(into ...any) error }

// List returns all rows of a result.
func List[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) ([]T, error) {
	args, err := arguments(args)
	if err != nil {
		return nil, err
	}
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, err
	}
	defer func() { _ = rows.Close() }() // Err has its error
	var all []T
	for rows.Next() {
		v, err := scan(results{rows})
		if errors.Is(err, ErrEnough) {
			break
		}
		if err != nil {
			return nil, err
		}
		all = append(all, v)
	}
	return all, rows.Err()
}

// One returns the only row of a result; model.ErrNotFound: there is none.
func One[T any](ctx context.Context, q Querier, scan func(Row) (T, error), query string, args ...any) (v T, err error) {
	all, err := List(ctx, q, scan, query, args...)
	switch {
	case err != nil:
		return v, err
	case len(all) == 0:
		return v, model.ErrNotFound
	}
	return all[0], nil
}

// Exec runs a statement, and returns how many rows it has changed.
func Exec(ctx context.Context, q Querier, query string, args ...any) (int64, error) {
	args, err := arguments(args)
	if err != nil {
		return 0, err
	}
	r, err := q.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return r.RowsAffected()
}

// Must runs a statement that changes a row. It returns missing if there was none.
func Must(ctx context.Context, q Querier, missing error, query string, args ...any) error {
	n, err := Exec(ctx, q, query, args...)
	if err == nil && n == 0 {
		return missing
	}
	return err
}

// Exists returns model.ErrNotFound if a query has no result.
func Exists(ctx context.Context, q Querier, query string, args ...any) error {
	_, err := One(ctx, q, func(Row) (struct{}, error) { return struct{}{}, nil }, query, args...)
	return err
}

// Column scans a row of one column.
func Column[T any](r Row) (v T, err error) { return v, r.Scan(&v) }

// Tx is the transaction of a write.
type Tx struct {
	*sql.Tx
	changes []string
}

// Changed notifies watchers of a change once the transaction is committed.
func (t *Tx) Changed(change string) { t.changes = append(t.changes, change) }

// Write runs the transaction of a write. An error of its commit leaves open whether it was committed.
func (d *DB) Write(ctx context.Context, do func(context.Context, *Tx) error) error {
	d.transactions.writes.Add(1)
	return d.transact(ctx, do)
}

// ObserveIn runs the transaction of an observation.
func (d *DB) ObserveIn(ctx context.Context, do func(context.Context, *Tx) error) error {
	d.transactions.observations.Add(1)
	return d.transact(ctx, do)
}

func (d *DB) transact(ctx context.Context, do func(context.Context, *Tx) error) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	raw, err := d.writes.BeginTx(ctx, nil)
	if err != nil {
		return fmt.Errorf("begin a write to the store: %w", err)
	}
	t := &Tx{Tx: raw}
	if err = do(ctx, t); err == nil {
		err = d.changes.announce(ctx, t)
	}
	if err != nil {
		_ = raw.Rollback() // it is lost anyway
		return err
	}
	if err := raw.Commit(); err != nil {
		return fmt.Errorf("commit a write to the store; it may be in the store: %w", err)
	}
	d.changes.committed(t.changes)
	return nil
}

// Observe runs the one statement of an observation, and returns how many rows it has changed.
func (d *DB) Observe(ctx context.Context, query string, args ...any) (int64, error) {
	d.transactions.observations.Add(1)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), writeWithin)
	defer cancel()
	return Exec(ctx, d.writes, query, args...)
}

// JSON is a value that is JSON in a table: the value itself as an argument, a pointer to it in a Scan.
// An empty map or slice is an empty text.
type JSON struct{ Of any }

// arguments returns values as they are in tables: nanoseconds, hexadecimal digits, 0 or 1, texts.
func arguments(args []any) ([]any, error) {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case time.Time:
			out[i] = int64(0)
			if !v.IsZero() {
				out[i] = v.UnixNano()
			}
		case model.Digest:
			out[i] = hex.EncodeToString(v[:])
		case bool:
			out[i] = int64(0)
			if v {
				out[i] = int64(1)
			}
		case json.RawMessage:
			out[i] = string(v)
		case JSON:
			text, err := v.encode()
			if err != nil {
				return nil, err
			}
			out[i] = text
		default:
			out[i] = a
			if text := reflect.ValueOf(a); text.Kind() == reflect.String {
				out[i] = text.String()
			}
		}
		if text, is := out[i].(string); is && (strings.ContainsRune(text, 0) || !utf8.ValidString(text)) {
			return nil, model.ErrText
		}
	}
	return out, nil
}

func (j JSON) encode() (string, error) {
	if v := reflect.ValueOf(j.Of); (v.Kind() == reflect.Map || v.Kind() == reflect.Slice) && v.Len() == 0 {
		return "", nil
	}
	text, err := json.Marshal(j.Of)
	return string(text), err
}

// results scans rows with values as arguments returns them.
type results struct{ Row }

// Scan implements Row.
func (r results) Scan(into ...any) error {
	for i, to := range into {
		switch to.(type) {
		case *time.Time, *model.Digest, *bool, *json.RawMessage, JSON:
			into[i] = column{to}
		}
	}
	return r.Row.Scan(into...)
}

// column is a sql.Scanner for what arguments converts.
type column struct{ to any }

// Scan implements sql.Scanner.
func (c column) Scan(v any) error {
	n, isNumber := v.(int64)
	text, isText := v.(string)
	switch to := c.to.(type) {
	case *time.Time:
		*to = time.Time{}
		if n != 0 {
			*to = time.Unix(0, n).UTC()
		}
		return is(isNumber, v)
	case *bool:
		*to = n != 0
		return is(isNumber, v)
	case *model.Digest:
		sum, err := hex.DecodeString(text)
		if err != nil || len(sum) != len(to) {
			return errors.New("a digest in the table is not valid")
		}
		*to = model.Digest(sum)
	case *json.RawMessage:
		*to = nil
		if text != "" {
			*to = json.RawMessage(text)
		}
	case JSON:
		if text != "" {
			return json.Unmarshal([]byte(text), to.Of)
		}
	}
	return is(isText, v)
}

func is(right bool, v any) error {
	if !right {
		return fmt.Errorf("a column has a %T", v)
	}
	return nil
}
