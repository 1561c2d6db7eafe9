package kube

import (
	"context"
	"fmt"

	"switchyard.dev/tools/cluster/internal/layout"
)

// Object is one object to be applied.
type Object struct {
	// Path is its place in the API.
	Path string
	// Body is the object itself.
	Body object
}

type object = map[string]any

// Objects lists what a cluster needs beyond what the API server makes itself:
// names for pods, storage, and the right for the API server to ask kubelet. It
// is pure.
func Objects(n layout.Node) []Object {
	all := []Object{kubeletAccess(), dnsRole(), dnsBinding(), dnsService(n), dnsEndpoints(n), storageClass()}
	for i := range n.Volumes {
		all = append(all, volume(n, i))
	}
	return all
}

// rbac is the API group of roles and bindings.
const rbac = "rbac.authorization.k8s.io"

func kubeletAccess() Object {
	return binding("switchyard:kubelet-client", "system:kubelet-api-admin", "kube-apiserver-kubelet-client")
}

func dnsBinding() Object {
	return binding("switchyard:coredns", "switchyard:coredns", "system:coredns")
}

func binding(name, role, user string) Object {
	return Object{
		Path: "/apis/" + rbac + "/v1/clusterrolebindings/" + name,
		Body: object{
			"apiVersion": rbac + "/v1", "kind": "ClusterRoleBinding", "metadata": object{"name": name},
			"roleRef":  object{"apiGroup": rbac, "kind": "ClusterRole", "name": role},
			"subjects": []object{{"apiGroup": rbac, "kind": "User", "name": user}},
		},
	}
}

func dnsRole() Object {
	read := []string{"list", "watch"}
	return Object{
		Path: "/apis/" + rbac + "/v1/clusterroles/switchyard:coredns",
		Body: object{
			"apiVersion": rbac + "/v1", "kind": "ClusterRole", "metadata": object{"name": "switchyard:coredns"},
			"rules": []object{
				{"apiGroups": []string{""}, "resources": []string{"services", "namespaces"}, "verbs": read},
				{"apiGroups": []string{"discovery.k8s.io"}, "resources": []string{"endpointslices"}, "verbs": read},
			},
		},
	}
}

// dnsService is the Service that pods ask for names. It has no selector: the
// server is a program on the node, so that names work before the first pod does.
func dnsService(n layout.Node) Object {
	port := func(name, protocol string) object {
		return object{"name": name, "port": 53, "protocol": protocol, "targetPort": 53}
	}
	return Object{
		Path: "/api/v1/namespaces/kube-system/services/kube-dns",
		Body: object{
			"apiVersion": "v1", "kind": "Service",
			"metadata": object{"name": "kube-dns", "namespace": "kube-system", "labels": object{"k8s-app": "kube-dns"}},
			"spec": object{
				"clusterIP": n.DNSServiceIP().String(),
				"ports":     []object{port("dns", "UDP"), port("dns-tcp", "TCP")},
			},
		},
	}
}

func dnsEndpoints(n layout.Node) Object {
	return Object{
		Path: "/apis/discovery.k8s.io/v1/namespaces/kube-system/endpointslices/kube-dns-node",
		Body: object{
			"apiVersion": "discovery.k8s.io/v1", "kind": "EndpointSlice",
			"metadata": object{"name": "kube-dns-node", "namespace": "kube-system", "labels": object{
				"kubernetes.io/service-name":             "kube-dns",
				"endpointslice.kubernetes.io/managed-by": "switchyard-cluster",
			}},
			"addressType": "IPv4",
			"endpoints":   []object{{"addresses": []string{n.Address.String()}, "conditions": object{"ready": true}}},
			"ports":       []object{{"name": "dns", "port": 53, "protocol": "UDP"}, {"name": "dns-tcp", "port": 53, "protocol": "TCP"}},
		},
	}
}

// StorageClassName is the name of the default storage class.
const StorageClassName = "node"

func storageClass() Object {
	return Object{
		Path: "/apis/storage.k8s.io/v1/storageclasses/" + StorageClassName,
		Body: object{
			"apiVersion": "storage.k8s.io/v1", "kind": "StorageClass",
			"metadata": object{"name": StorageClassName, "annotations": object{
				"storageclass.kubernetes.io/is-default-class": "true",
			}},
			"provisioner":       "kubernetes.io/no-provisioner",
			"volumeBindingMode": "WaitForFirstConsumer",
		},
	}
}

// VolumeName is the name of a local volume and of its directory.
func VolumeName(i int) string { return fmt.Sprintf("%s-%02d", StorageClassName, i) }

// VolumeDir is the directory of the local volume with the given name.
func VolumeDir(n layout.Node, name string) string { return n.Dir("volumes", name) }

func volume(n layout.Node, i int) Object {
	name := VolumeName(i)
	return Object{
		Path: "/api/v1/persistentvolumes/" + name,
		Body: object{
			"apiVersion": "v1", "kind": "PersistentVolume", "metadata": object{"name": name},
			"spec": object{
				"capacity":                      object{"storage": "10Gi"},
				"accessModes":                   []string{"ReadWriteOnce"},
				"persistentVolumeReclaimPolicy": "Retain",
				"storageClassName":              StorageClassName,
				"local":                         object{"path": VolumeDir(n, name)},
				"nodeAffinity": object{"required": object{"nodeSelectorTerms": []object{{
					"matchExpressions": []object{{"key": "kubernetes.io/hostname", "operator": "In", "values": []string{n.Name}}},
				}}}},
			},
		},
	}
}

// ApplyAll applies the objects one after the other.
func (c *Client) ApplyAll(ctx context.Context, objects []Object) error {
	for _, o := range objects {
		if err := c.Apply(ctx, o.Path, o.Body); err != nil {
			return err
		}
	}
	return nil
}
