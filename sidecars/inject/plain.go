package inject

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"switchyard.dev/sidecars/devmesh"
	"switchyard.dev/sidecars/redirect/spec"
)

// serverFirst are the protocols in which the server speaks first, as port names begin. The
// sidecar cannot detect the protocol of such a connection: the client waits for the server, and
// the server for a connection. Not among them: amqp, postgres, redis, mongo, kafka and mqtt, in
// which the client speaks first, and smtps, imaps, pop3s and ftps, which begin with a TLS
// handshake.
var serverFirst = []string{
	"dict", "ftp", "imap", "lmtp", "mariadb", "mysql", "nats", "nntp", "pop3", "rfb", "sftp", "sieve",
	"smtp", "ssh", "submission", "svn", "telnet", "vnc",
}

// routable are the words in a port's name that mean that requests are routed on it. One of them
// is enough: nats-http is the HTTP interface of a NATS server.
var routable = []string{"grpc", "grpcweb", "h2", "h2c", "http", "http1", "http2", "web", "websocket", "ws"}

// plainPorts returns which of a pod's ports pass the sidecar untouched and at once, because
// their server speaks first: those in the pod's annotation, or else the registered ports of
// such protocols and those container ports that are named after one, without those that are
// named after a protocol that is routed. When the annotation cannot be read it returns the
// reason, for people.
func plainPorts(pod *corev1.Pod) ([]uint16, string) {
	if text, said := pod.Annotations[AnnotationPlainPorts]; said {
		return plainBy(strings.TrimSpace(text))
	}
	plain, routed := devmesh.DefaultPlainPorts(), []uint16(nil)
	for _, c := range Lasting(pod.Spec) {
		for _, p := range c.Ports {
			switch words := strings.Split(strings.ToLower(p.Name), "-"); {
			case !isTCP(p):
			case slices.ContainsFunc(words, func(w string) bool { return slices.Contains(routable, w) }):
				routed = append(routed, uint16(p.ContainerPort))
			case slices.Contains(serverFirst, words[0]):
				plain = append(plain, uint16(p.ContainerPort))
			}
		}
	}
	plain = slices.DeleteFunc(plain, func(p uint16) bool { return slices.Contains(routed, p) })
	return spec.Normalize(plain), ""
}

// PlainOf returns the ports, ascending, that pass the sidecar of pods of this
// template untouched; none when its annotation cannot be read, as such pods get
// no sidecar.
func PlainOf(template *corev1.PodTemplateSpec) []uint16 {
	ports, _ := plainPorts(&corev1.Pod{ObjectMeta: template.ObjectMeta, Spec: template.Spec})
	return ports
}

// plainBy reads the annotation.
func plainBy(text string) ([]uint16, string) {
	if text == devmesh.NoPlainPorts {
		return nil, ""
	}
	ports, err := spec.Split(text)
	switch {
	case err != nil:
		return nil, fmt.Sprintf("annotation %s: %v; or %q", AnnotationPlainPorts, err, devmesh.NoPlainPorts)
	case len(ports) == 0:
		return nil, fmt.Sprintf("annotation %s is empty: name ports, as in \"3306,5432\", or write %q", AnnotationPlainPorts, devmesh.NoPlainPorts)
	case len(ports) > spec.MaxPorts:
		return nil, fmt.Sprintf("annotation %s names %d ports: at most %d", AnnotationPlainPorts, len(ports), spec.MaxPorts)
	}
	return ports, ""
}

// plainValue writes ports as the sidecar reads them.
func plainValue(ports []uint16) string {
	if len(ports) == 0 {
		return devmesh.NoPlainPorts
	}
	return spec.Join(ports)
}
