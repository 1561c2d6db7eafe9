package carrier

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"

	"google.golang.org/protobuf/proto"
)

// Limits of messages, in bytes.
const (
	maxHello   = 64 << 10 // the peer is not authenticated yet
	maxControl = 1 << 20
	maxOpen    = 16 << 10
)

const lengthBytes = 4

// errMessage is wrapped by every error about a malformed message.
var errMessage = errors.New("not a message of this protocol")

// writeMessage writes a message and its length, in one piece.
func writeMessage(w io.Writer, m proto.Message, limit int) error {
	size := proto.Size(m)
	if size > limit {
		return fmt.Errorf("a message of %d bytes may not be sent: at most %d", size, limit)
	}
	buf := make([]byte, lengthBytes, lengthBytes+size)
	binary.BigEndian.PutUint32(buf, uint32(size))
	buf, err := proto.MarshalOptions{}.MarshalAppend(buf, m)
	if err != nil {
		return err
	}
	_, err = w.Write(buf)
	return err
}

// readMessage reads a message of at most limit bytes. Memory is allocated as the bytes arrive,
// not for the declared length. The error is io.EOF if the reader ended before the message.
func readMessage(r io.Reader, m proto.Message, limit int) error {
	var length [lengthBytes]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return fmt.Errorf("%w: it ends within its length", errMessage)
		}
		return err
	}
	size := int64(binary.BigEndian.Uint32(length[:]))
	if size > int64(limit) {
		return fmt.Errorf("%w: it is %d bytes long, and may be %d", errMessage, size, limit)
	}
	buf, err := io.ReadAll(io.LimitReader(r, size))
	if err != nil {
		return err
	}
	if int64(len(buf)) < size {
		return fmt.Errorf("%w: it ends after %d of %d bytes", errMessage, len(buf), size)
	}
	if err := proto.Unmarshal(buf, m); err != nil {
		return fmt.Errorf("%w: %w", errMessage, err)
	}
	return nil
}
