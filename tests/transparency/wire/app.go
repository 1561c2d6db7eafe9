package wire

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"slices"
	"strings"
	"time"
)

// Bounds of Serve.
const (
	longestHead = 1<<20 + 4<<10 // as Go's server has it
	idle        = time.Minute
)

// Serve serves on a listener until it closes, as an application with unusual behavior. /answer/NAME
// returns an odd response, in bytes; /upgrade accepts an upgrade, by any name, and CONNECT to
// tunnel:1 one; /exact returns the head of the request unchanged, and all other paths the request,
// its header sorted. It rejects the requests that Go's own server rejects.
func Serve(l net.Listener) error {
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return nil
		}
		if err != nil {
			return err
		}
		go func() {
			defer c.Close()
			_ = c.SetDeadline(time.Now().Add(idle))
			in := bufio.NewReader(c)
			for serveOne(c, in) {
			}
		}()
	}
}

// serveOne serves one request, and reports whether the connection stays open.
func serveOne(c net.Conn, in *bufio.Reader) bool {
	head, err := headOf(in)
	if errors.Is(err, errLong) {
		return refuse(c, "431 Request Header Fields Too Large")
	}
	if err != nil {
		return false
	}
	q, err := http.ReadRequest(bufio.NewReader(bytes.NewReader(head)))
	if err != nil || !careful(head) {
		status := "400 Bad Request"
		if err != nil && strings.Contains(err.Error(), "unsupported transfer encoding") {
			status = "501 Not Implemented"
		}
		if err == nil && q.ProtoMajor != 1 {
			status = "505 HTTP Version Not Supported"
		}
		return refuse(c, status)
	}
	if switches(c, q) {
		_, _ = io.Copy(c, in)
		return false
	}
	if q.Header.Get("Expect") != "" && q.URL.Path == "/continue" {
		_, _ = io.WriteString(c, "HTTP/1.1 100 Continue\r\n\r\n")
	}
	body, err := bodyOf(q, in)
	if err != nil {
		return refuse(c, "400 Bad Request")
	}
	if name, ok := strings.CutPrefix(q.URL.Path, "/answer/"); ok {
		if odd, ok := oddAnswers()[name]; ok {
			if end := strings.Index(odd.bytes, "\r\n\r\n"); q.Method == http.MethodHead && end >= 0 {
				odd.bytes = odd.bytes[:end+4]
			}
			_, err := io.WriteString(c, odd.bytes)
			return err == nil && !odd.closes
		}
		_, err := io.WriteString(c, "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n")
		return err == nil
	}
	answer := textOf(head) + body
	if q.URL.Path == "/exact" {
		answer = string(head)
	}
	if q.Method == http.MethodHead {
		answer = ""
	}
	line := ""
	if q.Close {
		line = "Connection: close\r\n"
	}
	_, err = fmt.Fprintf(c, "HTTP/1.1 200 OK\r\n%sContent-Length: %d\r\n\r\n%s", line, len(answer), answer)
	return err == nil && !q.Close
}

// switches accepts a tunnel or an upgrade, if the request has one that Serve supports.
func switches(c net.Conn, q *http.Request) bool {
	to, status := q.Header.Get("Upgrade"), "200 OK\r\n"
	if to != "" {
		status = "101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: " + to + "\r\n"
	}
	accepts := q.Method == http.MethodConnect && q.RequestURI == "tunnel:1" || q.URL.Path == "/upgrade" && to != ""
	if accepts {
		_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\n")
	}
	return accepts
}

// refuse answers without having read all, and announces that the connection ends.
func refuse(c net.Conn, status string) bool {
	_, _ = io.WriteString(c, "HTTP/1.1 "+status+"\r\nConnection: close\r\nContent-Length: 0\r\n\r\n")
	return false
}

var errLong = errors.New("the head is too long")

// headOf reads up to the first empty line, after any before the request.
func headOf(in *bufio.Reader) ([]byte, error) {
	var head []byte
	for {
		line, err := in.ReadBytes('\n')
		if err != nil {
			return nil, err
		}
		empty := len(bytes.TrimRight(line, "\r\n")) == 0
		if empty && len(head) == 0 {
			continue
		}
		if head = append(head, line...); len(head) > longestHead {
			return nil, errLong
		}
		if empty {
			return head, nil
		}
	}
}

// careful reports whether Go's server would take a head that its parser takes.
func careful(head []byte) bool {
	_, lines, _ := strings.Cut(string(head), "\n")
	hosts := 0
	for line := range strings.Lines(lines) {
		name, _, _ := strings.Cut(line, ":")
		if strings.EqualFold(name, "host") {
			hosts++
		}
		if strings.ContainsAny(strings.TrimRight(line, "\r\n"), "\r\x00") {
			return false
		}
	}
	first, _, _ := strings.Cut(string(head), "\n")
	old := strings.HasSuffix(strings.TrimSpace(first), "HTTP/1.0")
	return hosts == 1 && strings.Contains(first, "HTTP/1.") || hosts == 0 && old
}

// bodyOf reads a request's body, with its trailers.
func bodyOf(q *http.Request, in *bufio.Reader) (string, error) {
	if len(q.TransferEncoding) == 0 {
		content, err := io.ReadAll(io.LimitReader(in, max(q.ContentLength, 0)))
		return brief(string(content)), err
	}
	content, err := io.ReadAll(httputil.NewChunkedReader(in))
	if err != nil {
		return "", err
	}
	told := brief(string(content))
	for {
		line, err := in.ReadString('\n')
		if err != nil || strings.TrimSpace(line) == "" {
			return told, err
		}
		told += "\n" + strings.ToLower(strings.TrimSpace(line))
	}
}

// textOf returns a head with the names of its lines in lower case and sorted, without hop-by-hop
// details: the Connection header, and the framing of an empty body.
func textOf(head []byte) string {
	first, rest, _ := strings.Cut(string(head), "\n")
	var lines []string
	for line := range strings.Lines(rest) {
		name, value, ok := strings.Cut(strings.TrimRight(line, "\r\n"), ":")
		if ok {
			lines = append(lines, strings.ToLower(name)+": "+brief(strings.TrimSpace(value)))
		}
	}
	slices.Sort(lines)
	lines = slices.DeleteFunc(lines, ownHop)
	return strings.TrimSpace(first) + "\n" + strings.Join(briefly(lines, len(rest)), "\n") + "\n"
}

func ownHop(line string) bool {
	return strings.HasPrefix(line, "connection:") || line == "content-length: 0"
}
