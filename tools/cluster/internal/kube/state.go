package kube

import (
	"context"
	"errors"
	"fmt"
	"strings"
)

type nodeObject struct {
	Spec struct {
		Taints []struct{ Key string }
	}
	Status struct {
		Conditions []struct{ Type, Status, Reason, Message string }
		NodeInfo   struct{ KubeletVersion string }
	}
}

// NodeReady checks whether the node can run pods. It returns the version of its kubelet, or an
// error with the reason.
func (c *Client) NodeReady(ctx context.Context, name string) (version string, err error) {
	var node nodeObject
	err = c.Get(ctx, "/api/v1/nodes/"+name, &node)
	if errors.Is(err, ErrNotFound) {
		return "", fmt.Errorf("kubelet has not made itself known yet")
	}
	if err != nil {
		return "", err
	}
	if err := node.ready(); err != nil {
		return "", err
	}
	return node.Status.NodeInfo.KubeletVersion, nil
}

// ready returns what keeps a node from running pods, or nil.
func (n nodeObject) ready() error {
	verdict := fmt.Errorf("kubelet has not reported the node's condition yet")
	for _, c := range n.Status.Conditions {
		if c.Type != "Ready" {
			continue
		}
		verdict = nil
		if c.Status != "True" {
			verdict = fmt.Errorf("%s: %s", c.Reason, c.Message)
		}
	}
	if verdict != nil {
		return verdict
	}
	for _, t := range n.Spec.Taints {
		if strings.HasPrefix(t.Key, "node.kubernetes.io/") {
			return fmt.Errorf("the node is ready but still marked %s", t.Key)
		}
	}
	return nil
}

// DefaultAccount asks whether pods can be made in the default namespace: they
// need its service account, which a controller makes.
func (c *Client) DefaultAccount(ctx context.Context) error {
	return c.Get(ctx, "/api/v1/namespaces/default/serviceaccounts/default", nil)
}

type volumeList struct {
	Items []struct {
		Metadata struct{ Name string }
		Spec     struct{ StorageClassName string }
		Status   struct{ Phase string }
	}
}

// Released returns the names of the node's volumes that belonged to deleted claims. Kubernetes does
// not reuse them, to protect their data.
func (c *Client) Released(ctx context.Context) ([]string, error) {
	var list volumeList
	if err := c.Get(ctx, "/api/v1/persistentvolumes", &list); err != nil {
		return nil, err
	}
	var names []string
	for _, v := range list.Items {
		if v.Spec.StorageClassName == StorageClassName && v.Status.Phase == "Released" {
			names = append(names, v.Metadata.Name)
		}
	}
	return names, nil
}

// Reuse makes a released volume free for the next claim. Its data must have been
// removed before.
func (c *Client) Reuse(ctx context.Context, name string) error {
	return c.Merge(ctx, "/api/v1/persistentvolumes/"+name, object{"spec": object{"claimRef": nil}})
}
