package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"
	"time"

	"switchyard.dev/controlplane-link/server"
	"switchyard.dev/tests/bench/tunnels/lab"
	"switchyard.dev/tests/bench/tunnels/web"
	"switchyard.dev/tests/link/previews"
)

// The HTTP service is at webPort. The third entrance of the link is forwarded to it.
const (
	webPort, webEntrance = 9002, 2
	previewsAt, nginxAt  = "127.0.0.1:8445", "127.0.0.1:8446"
	nginx                = "/usr/sbin/nginx"
)

// servePreviews serves previews with the certificate in a folder.
func servePreviews(link *server.Server, dir string) error {
	p, err := previews.New(previews.Config{
		Link: link, Cluster: linked, Dir: dir, Address: previewsAt, Endpoints: map[string]string{web.Endpoint: fmt.Sprintf("http://%s:%d", linkHost, webPort)},
	})
	if err != nil {
		return err
	}
	return p.Run(context.Background())
}

// comparePreviews compares previews with the link alone and with nginx, in turn.
func comparePreviews(s site) error {
	if _, err := os.Stat(nginx); err != nil {
		return errors.New("there is no nginx: apt-get install nginx-light")
	}
	defer os.RemoveAll(s.file("previews")) // link servers of other measurements have none
	l, err := lab.New(lab.Link{})
	if err != nil {
		return err
	}
	defer l.Close()
	p := &programs{lab: l}
	defer p.Close()
	ways := web.Ways{
		Service: net.JoinHostPort(lab.NearAddress, strconv.Itoa(webPort)), Host: linkHost, Link: entrance(webEntrance), Previews: previewsAt, Nginx: nginxAt,
		Dir: s.file("previews"), Rounds: options.rounds, For: options.duration,
		Dial: func(address string) (c net.Conn, err error) {
			err = lab.Inside(l.Far, func() (err error) { c, err = net.DialTimeout("tcp4", address, 10*time.Second); return err })
			return c, err
		},
	}
	config, err := ways.Prepare()
	if err := errors.Join(err, p.ourselves(l.Near, "-web", ways.Service), openLink(p, s)); err != nil {
		return err
	}
	if _, err := p.start(l.Far, nginx, "-e", "stderr", "-c", config); err != nil {
		return err
	}
	return ways.Compare()
}
