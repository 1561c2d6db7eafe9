package meshes

import (
	"context"
	"encoding/json"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	crdv1 "switchyard.dev/protos/crd/v1"
	forktraffic "switchyard.dev/reconcilers/fork/traffic"
	"switchyard.dev/reconcilers/trafficcapture"
	_ "switchyard.dev/sidecars/traffic/attach"  // both are parts of the program that this test builds,
	_ "switchyard.dev/sidecars/traffic/manager" // which tools/unchanged does not know
	"switchyard.dev/tests/apiserver"
	"switchyard.dev/tests/background"
	"switchyard.dev/tests/cable"
	"switchyard.dev/tests/podnet"
	"switchyard.dev/tests/sidecar"
	"switchyard.dev/tools/wait"
)

// trafficManager is the package of the program, and managerHost its host name.
const (
	trafficManager = "sidecars/cmd/traffic-manager"
	managerHost    = trafficcapture.ManagerName + "." + operator + ".svc"
)

// runTrafficManager runs the program in a pod of its own, and makes the objects by which the controller manager finds it and
// shows it the token in a file. It returns the address of its services.
func (s *shop) runTrafficManager(token string) string {
	s.Helper()
	pod, err := podnet.NewPod(1)
	s.Must(err)
	s.Cleanup(func() { s.Must(pod.Close()) })
	s.Accounts(operator, "signadot-controller-manager", trafficcapture.ManagerName)
	s.write(token, s.Token(operator, "signadot-controller-manager", forktraffic.Audience, nil))
	object := s.pod(operator, trafficcapture.ManagerName, trafficcapture.ManagerName, pod.IP)

	dir := s.TempDir()
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: operator, Name: "traffic-tls"}}
	s.Eventually("the manager has written the certificate of traffic-manager", func() error {
		if err := s.Look(secret); err != nil || len(secret.Data) > 0 {
			return err
		}
		return errors.New("it has not")
	})
	for name, content := range secret.Data {
		s.write(filepath.Join(dir, "run/secrets/tls", name), string(content))
	}
	access := cable.Lay(s, pod.Host.String(), strings.Trim(strings.TrimPrefix(s.Config.Host, "https:"), "/"))
	_, port, err := net.SplitHostPort(access.Address)
	s.Must(err)
	s.Grant("system:serviceaccount:"+operator+":"+trafficcapture.ManagerName, "", rbacv1.PolicyRule{APIGroups: []string{"*"}, Resources: []string{"*"}, Verbs: []string{"*"}})
	s.write(filepath.Join(dir, "run/secrets/kubernetes.io/serviceaccount/token"), s.Token(operator, trafficcapture.ManagerName, "", object))
	s.write(filepath.Join(dir, "run/secrets/kubernetes.io/serviceaccount/ca.crt"), string(s.Config.CAData))
	s.write(filepath.Join(dir, "run/token"), s.Token(operator, trafficcapture.ManagerName, forktraffic.Audience, object))
	// The API server's certificate is for localhost.
	s.write(filepath.Join(dir, "hosts"), pod.Host.String()+" localhost\n"+pod.IP.String()+" "+managerHost+"\n")
	cmd := exec.Command(sidecar.Built(trafficManager), "-replica", object.Name, "-store", filepath.Join(dir, "store"), "-store-size", "64Mi", //nolint:gosec // built by Isolate
		"-token", "/run/token", "-readers", operator+":signadot-controller-manager", "-log-level", "warn")
	cmd.Env = append(os.Environ(), "KUBERNETES_SERVICE_HOST=localhost", "KUBERNETES_SERVICE_PORT="+port)
	s.run(trafficcapture.ManagerName, cmd, func(start func() error) error {
		return pod.Do(func() error {
			err := unix.Unshare(unix.CLONE_NEWNS)
			if err == nil {
				err = errors.Join(unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
					unix.Mount(filepath.Join(dir, "run"), "/run", "", unix.MS_BIND, ""), unix.Mount(filepath.Join(dir, "hosts"), "/etc/hosts", "", unix.MS_BIND, ""))
			}
			if err != nil {
				return err
			}
			return start()
		})
	})
	return net.JoinHostPort(pod.IP.String(), strconv.Itoa(trafficcapture.ManagerPort))
}

// write writes a file, and the folder that it is in.
func (s *shop) write(name, content string) {
	s.Helper()
	s.Must(errors.Join(os.MkdirAll(filepath.Dir(name), 0o700), os.WriteFile(name, []byte(content), 0o600)))
}

// pod makes a ready pod of a Deployment, which runs as a service account.
func (s *shop) pod(namespace, deployment, account string, ip net.IP) *corev1.Pod {
	s.Helper()
	set, err := apiserver.ReplicaSet(s.Context(), s.Kube, namespace, "Deployment", deployment)
	s.Must(err)
	pod, err := apiserver.Pod(s.Context(), s.Kube, set, deployment+"-0", account)
	s.Must(err)
	pod.Status = corev1.PodStatus{Phase: corev1.PodRunning, PodIP: ip.String(), PodIPs: []corev1.PodIP{{IP: ip.String()}}, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: true}}}
	s.Must(s.Client.Status().Update(s.Context(), pod))
	return pod
}

// kubeProxy forwards connections to the addresses of the shop's Services, each to an endpoint that the Service has when the
// connection is opened.
func (s *shop) kubeProxy(ctx context.Context) error {
	for open := map[string]bool{}; wait.For(ctx, 50*time.Millisecond) == nil; {
		var all corev1.ServiceList
		if err := s.Client.List(ctx, &all, client.InNamespace(shopName)); err != nil {
			continue // until the test ends
		}
		for _, service := range all.Items {
			ip := service.Spec.ClusterIP
			if open[ip] || ip == corev1.ClusterIPNone {
				continue
			}
			open[ip] = true
			if err := podnet.ServeAddress(net.ParseIP(ip)); err != nil {
				return err
			}
			for _, p := range service.Spec.Ports {
				openRelay(s, net.JoinHostPort(ip, strconv.Itoa(int(p.Port))), func() string { return s.endpoint(ctx, service.Name, p.Name) })
			}
		}
	}
	return nil
}

// endpoint returns an address of a Service's port; "" while it has none.
func (s *shop) endpoint(ctx context.Context, service, port string) string {
	var all discoveryv1.EndpointSliceList
	if err := s.Client.List(ctx, &all, client.InNamespace(shopName), client.MatchingLabels{discoveryv1.LabelServiceName: service}); err != nil {
		return ""
	}
	for _, slice := range all.Items {
		for _, p := range slice.Ports {
			if *p.Name == port && len(slice.Endpoints) > 0 {
				return net.JoinHostPort(slice.Endpoints[0].Addresses[0], strconv.Itoa(int(*p.Port)))
			}
		}
	}
	return ""
}

// connect has a server answer at the end of the tunnel of the one external workload, and reports that as connected, as the
// controller of tunnels does.
func (s *shop) connect(name string) {
	s.Helper()
	var all crdv1.SignadotExternalWorkloadList
	s.Eventually("there is an external workload", func() error {
		if s.List(&all); len(all.Items) == 0 {
			return errors.New("there is none")
		}
		return nil
	})
	ip := s.stand(name, name, nil).String()
	proxy := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: shopName, Name: "tunnel-proxy"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "main:1"}}}}
	s.RunPod(proxy, corev1.PodStatus{PodIP: ip, PodIPs: []corev1.PodIP{{IP: ip}}})
	background.Run(s, func(ctx context.Context) error {
		for ctx.Err() == nil {
			now := metav1.Now()
			patch, err := json.Marshal(map[string]any{"status": map[string]any{"tunnel": crdv1.TunnelStatus{
				Health: &crdv1.TunnelHealth{Connected: true, LastCheckTime: &now, LastConnectedTime: &now},
				Info: &crdv1.TunnelInfo{TunnelProxyPodIP: ip, TunnelProxyPodName: proxy.Name, ControlPort: 31999,
					WorkloadPorts: []crdv1.TunnelWorkloadPort{{Baseline: Port, Proxy: TargetPort}}},
			}}})
			if err == nil {
				err = s.Client.Status().Patch(ctx, all.Items[0].DeepCopy(), client.RawPatch(types.MergePatchType, patch))
			}
			if err != nil && ctx.Err() == nil {
				return err
			}
			_ = wait.For(ctx, 5*time.Second) // it returns early at the end
		}
		return nil
	})
}
