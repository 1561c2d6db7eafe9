package parse

// Side is one of the two messages of an exchange.
type Side int

// The sides.
const (
	Request Side = iota
	Response
)

// String returns the end of the connection that sends the message.
func (s Side) String() string { return [...]string{"client", "application"}[s] }

// closed is the problem of requests without a whole response by the application's end.
const closed = "closed by the application"

// Field is a header or a trailer, as it was written.
type Field struct{ Name, Value string }

// Head is the beginning of a request or of its final response.
type Head struct {
	// Protocol is HTTP/1.0, HTTP/1.1 or HTTP/2.
	Protocol                  string
	Method, Target, Authority string
	Status                    int
	Fields                    []Field
}

// Observer is notified of requests. Its method and those of the results are called for one Conn at a time, and must not block.
type Observer interface {
	// Seen counts a request before its bytes are passed on. One method of the result is called after that, once.
	Seen() Seen
}

// Seen is a request that is counted.
type Seen interface {
	// Begin returns the receiver of the exchange, or nil if it is not captured.
	Begin(Head) Exchange
	// Unreadable reports that the connection cannot be read any more, and why. Exchanges after that are not seen.
	Unreadable(reason string)
}

// Exchange receives the parts of one exchange.
type Exchange interface {
	// Respond takes the head of the final response, or that of a switch of protocols.
	Respond(Head)
	// Body takes the next bytes of a body without its framing. They are valid during the call.
	Body(Side, []byte)
	// Message marks the end of a message of gRPC or WebSocket in the body.
	Message(Side)
	// Trailers takes the trailers of a message.
	Trailers(Side, []Field)
	// End is called once, last. problem is empty if both messages are whole.
	End(problem string)
}

// transaction is an exchange in its connection.
type transaction struct {
	to     Exchange // nil: it is not captured
	method string
	// upgrade is the protocol that the request asks for.
	upgrade string
	ended   [2]bool
	// responded: the final response of HTTP/2 has begun.
	responded bool
	over      bool
	// messages are the frames of gRPC; nil for others.
	messages *[2]lengths
}

func (t *transaction) body(s Side, b []byte) {
	if t == nil || t.to == nil || t.over || len(b) == 0 {
		return
	}
	if t.messages == nil {
		t.to.Body(s, b)
		return
	}
	for len(b) > 0 {
		n, whole := t.messages[s].next(b)
		t.to.Body(s, b[:n])
		if whole {
			t.to.Message(s)
		}
		b = b[n:]
	}
}

// end ends one side. It reports whether both have ended.
func (t *transaction) end(s Side) bool {
	t.ended[s] = true
	if t.ended[Request] && t.ended[Response] {
		t.close("")
		return true
	}
	return false
}

func (t *transaction) close(problem string) {
	if t.to != nil && !t.over {
		t.to.End(problem)
	}
	t.over = true
}

// lengths finds the ends of messages of gRPC: one byte of flags, four of the length, and the message.
type lengths struct {
	prefix [5]byte
	have   int
	left   uint64
}

// next returns how many bytes of b belong to the current message, and whether they end it.
func (l *lengths) next(b []byte) (n int, whole bool) {
	if l.have < len(l.prefix) {
		n = copy(l.prefix[l.have:], b)
		if l.have += n; l.have < len(l.prefix) {
			return n, false
		}
		l.left = uint64(l.prefix[1])<<24 | uint64(l.prefix[2])<<16 | uint64(l.prefix[3])<<8 | uint64(l.prefix[4])
	}
	more := min(uint64(len(b)-n), l.left)
	l.left -= more
	if l.left == 0 {
		l.have = 0
	}
	return n + int(more), l.left == 0
}
