package streams

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"switchyard.dev/tests/podnet"
	"switchyard.dev/tools/traffic"
)

// The roles of the processes that this program starts.
const (
	roleApp  = "app"  // with the listener as descriptor 3
	roleLine = "line" // with the two ends as descriptors 3 and 4
	roleBusy = "busy"
)

// delayName has a line's delay, one way.
const delayName = "SWITCHYARD_STREAMS_DELAY"

// become is one of the parts.
func become(role string) error {
	switch role {
	case roleApp:
		return serve()
	case roleLine:
		delay, err := time.ParseDuration(os.Getenv(delayName))
		if err != nil {
			return err
		}
		return podnet.Carry(os.NewFile(3, "near"), os.NewFile(4, "far"), delay)
	case roleBusy:
		for { //nolint:staticcheck // it is to be busy
		}
	}
	return fmt.Errorf("%q is nothing to be", role)
}

// window is the maximum window of net/http: it is no limit here.
const window = 4<<20 - 1

// serve is the application: GET returns as many bytes as the query states, and POST reads the
// body and returns its size.
func serve() error {
	l, err := net.FileListener(os.NewFile(3, "listener"))
	if err != nil {
		return err
	}
	server := &http.Server{
		ReadHeaderTimeout: time.Minute,
		Protocols:         traffic.Protocols(true, true),
		HTTP2:             &http.HTTP2Config{MaxReceiveBufferPerConnection: window, MaxReceiveBufferPerStream: window},
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.Method == http.MethodPost {
				n, _ := drain(r.Body)
				fmt.Fprint(w, n)
				return
			}
			size, err := strconv.ParseInt(r.URL.RawQuery, 10, 64)
			if err != nil {
				http.Error(w, err.Error(), http.StatusBadRequest)
				return
			}
			w.Header().Set("Content-Length", r.URL.RawQuery)
			_, _ = io.CopyBuffer(onlyWriter{w}, &zeros{size}, make([]byte, chunk)) // the client reports how much it received
		}),
	}
	if err := server.Serve(l); !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

// chunk is the size of one read or write.
const chunk = 256 << 10

// onlyWriter and onlyReader hide what would copy in pieces of another size.
type (
	onlyWriter struct{ io.Writer }
	onlyReader struct{ io.Reader }
)

func drain(from io.Reader) (int64, error) {
	return io.CopyBuffer(onlyWriter{io.Discard}, onlyReader{from}, make([]byte, chunk))
}

// zeros is a reader of the given number of bytes.
type zeros struct{ left int64 }

func (z *zeros) Read(b []byte) (int, error) {
	if z.left == 0 {
		return 0, io.EOF
	}
	n := min(z.left, int64(len(b)))
	z.left -= n
	return int(n), nil
}
