package database

import (
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"time"
	"unicode/utf8"

	"switchyard.dev/controlplane-link/controlplane/model"
)

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
