package jobs

import (
	"errors"
	"fmt"
	"strings"

	"switchyard.dev/controlplane-link/controlplane/model"
	"switchyard.dev/controlplane-link/controlplane/store/seal"
)

// position is a place in an output stream of a job.
type position struct {
	// execution is 0 before the first one has begun.
	execution int32
	offset    uint64
}

// ErrCursor is the error of a cursor that this control plane has not made for the stream.
var ErrCursor = errors.New("the cursor is not one of this stream; leave it out to read from the beginning")

// place binds a cursor to its stream.
func place(j model.Job, stream string) string {
	return "cursor of " + j.Org + "/" + j.Name + "/" + stream
}

// cursor returns the text of a position.
func (p position) cursor(keys *seal.Keys, j model.Job, stream string) string {
	id, sealed := keys.Seal(place(j, stream), fmt.Sprintf("%d %d", p.execution, p.offset))
	return id + "." + sealed
}

// parse returns the position of a cursor.
func parse(keys *seal.Keys, j model.Job, stream, cursor string) (p position, err error) {
	id, sealed, _ := strings.Cut(cursor, ".")
	text, err := keys.Open(id, place(j, stream), sealed)
	if err != nil {
		return p, ErrCursor
	}
	if _, err := fmt.Sscanf(text, "%d %d", &p.execution, &p.offset); err != nil {
		return p, ErrCursor
	}
	return p, nil
}
