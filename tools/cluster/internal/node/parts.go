package node

import (
	"path/filepath"

	"switchyard.dev/tools/cluster/internal/layout"
)

// Part is one program of a node.
type Part struct {
	// Name is the program's name, also of its log.
	Name string
	// Args are its arguments, without the program itself.
	Args []string
	// Check is how to ask whether it is well.
	Check Check
	// Wave is when it is started: parts of one wave together, and a wave when
	// the one before it is well.
	Wave int
}

// Check is a question to a part. Exactly one of its fields is set.
type Check struct {
	// URL answers 200 to a GET when all is well. It is asked inside the network
	// namespace, with the administrator's certificate.
	URL string
	// Command is a program of the cache with arguments that succeeds when all is well.
	Command []string
}

// etcdURL is the address that etcd listens on. Only the node's own processes are in the network
// namespace of this loopback.
const etcdURL = "http://127.0.0.1:2379"

// Parts lists the programs of a node in the order in which they are started.
func Parts(n layout.Node) []Part {
	return []Part{
		{Name: "etcd", Args: etcd(n), Check: Check{URL: etcdURL + "/readyz"}},
		{Name: "containerd", Args: []string{"--config", n.Dir("containerd.toml")},
			Check: Check{Command: []string{"ctr", "--address", n.Containerd(), "--connect-timeout", "2s", "version"}}},
		{Name: "kube-apiserver", Args: apiserver(n), Check: Check{URL: n.APIServer() + "/readyz"}, Wave: 1},
		{Name: "kube-controller-manager", Args: controllerManager(n), Check: Check{URL: "https://127.0.0.1:10257/healthz"}, Wave: 2},
		{Name: "kube-scheduler", Args: []string{
			"--kubeconfig=" + n.Dir("kube-scheduler.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
		}, Check: Check{URL: "https://127.0.0.1:10259/healthz"}, Wave: 2},
		{Name: "kubelet", Args: []string{
			"--config=" + n.Dir("kubelet.yaml"), "--kubeconfig=" + n.Dir("kubelet.kubeconfig"),
			"--hostname-override=" + n.Name, "--node-ip=" + n.Address.String(),
			"--root-dir=" + n.Dir("kubelet"), "--cert-dir=" + n.Dir("pki"),
		}, Check: Check{URL: "http://127.0.0.1:10248/healthz"}, Wave: 2},
		{Name: "kube-proxy", Args: []string{"--config=" + n.Dir("kube-proxy.yaml")},
			Check: Check{URL: "http://127.0.0.1:10256/healthz"}, Wave: 2},
		{Name: "coredns", Args: []string{"-conf", n.Dir("Corefile")},
			Check: Check{URL: "http://127.0.0.1:8181/ready"}, Wave: 2},
	}
}

// etcd returns the arguments of etcd. It does not sync its writes: its data does not survive a
// power failure, and need not, since a node is created again after a restart of the machine.
func etcd(n layout.Node) []string {
	return []string{
		"--name=" + n.Name, "--data-dir=" + n.Dir("etcd"), "--unsafe-no-fsync",
		"--listen-client-urls=" + etcdURL, "--advertise-client-urls=" + etcdURL,
		"--listen-peer-urls=http://127.0.0.1:2380", "--initial-advertise-peer-urls=http://127.0.0.1:2380",
		"--initial-cluster=" + n.Name + "=http://127.0.0.1:2380", "--log-level=warn",
	}
}

func apiserver(n layout.Node) []string {
	pki := func(file string) string { return filepath.Join(n.Dir("pki"), file) }
	return []string{
		"--etcd-servers=" + etcdURL,
		"--bind-address=" + n.Address.String(), "--advertise-address=" + n.Address.String(), "--secure-port=6443",
		"--tls-cert-file=" + pki("kube-apiserver.crt"), "--tls-private-key-file=" + pki("kube-apiserver.key"),
		"--client-ca-file=" + pki("ca.crt"),
		"--service-account-key-file=" + pki("service-accounts.pub"),
		"--service-account-signing-key-file=" + pki("service-accounts.key"),
		"--service-account-issuer=https://kubernetes.default.svc." + layout.Domain,
		"--service-cluster-ip-range=" + n.Services.String(),
		"--authorization-mode=Node,RBAC", "--enable-admission-plugins=NodeRestriction",
		"--allow-privileged=true",
		"--kubelet-certificate-authority=" + pki("ca.crt"),
		"--kubelet-client-certificate=" + pki("kubelet-client.crt"), "--kubelet-client-key=" + pki("kubelet-client.key"),
		"--kubelet-preferred-address-types=InternalIP",
		"--requestheader-client-ca-file=" + pki("front-proxy-ca.crt"), "--requestheader-allowed-names=front-proxy",
		"--requestheader-username-headers=X-Remote-User", "--requestheader-group-headers=X-Remote-Group",
		"--requestheader-extra-headers-prefix=X-Remote-Extra-",
		"--proxy-client-cert-file=" + pki("front-proxy.crt"), "--proxy-client-key-file=" + pki("front-proxy.key"),
	}
}

func controllerManager(n layout.Node) []string {
	return []string{
		"--kubeconfig=" + n.Dir("kube-controller-manager.kubeconfig"), "--leader-elect=false", "--bind-address=127.0.0.1",
		"--service-account-private-key-file=" + n.Dir("pki/service-accounts.key"), "--use-service-account-credentials",
		"--root-ca-file=" + n.Dir("pki/ca.crt"),
		"--cluster-signing-cert-file=" + n.Dir("pki/ca.crt"), "--cluster-signing-key-file=" + n.Dir("pki/ca.key"),
		"--allocate-node-cidrs=true", "--cluster-cidr=" + n.Pods.String(), "--node-cidr-mask-size=" + bits(n),
		"--service-cluster-ip-range=" + n.Services.String(),
	}
}
