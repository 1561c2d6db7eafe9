package member

import (
	"context"
	"fmt"

	crdv1 "switchyard.dev/protos/crd/v1"
	"switchyard.dev/reconcilers/apply"
)

// Write writes a member of any kind, as apply.Try does; have may be nil.
func Write(ctx context.Context, w apply.Writer, want, have crdv1.Member) (crdv1.Member, *apply.Refusal, error) {
	switch want := want.(type) {
	case *crdv1.ForkedWorkload:
		return writeAs(ctx, w, want, have)
	case *crdv1.SignadotExternalWorkload:
		return writeAs(ctx, w, want, have)
	case *crdv1.VirtualWorkload:
		return writeAs(ctx, w, want, have)
	}
	return nil, nil, fmt.Errorf("write a member: %T is none", want)
}

// writeAs writes a member of one kind.
func writeAs[T any, P interface {
	apply.Object[T]
	crdv1.Member
}](ctx context.Context, w apply.Writer, want P, have crdv1.Member) (crdv1.Member, *apply.Refusal, error) {
	mine, _ := have.(P) // nil when there is none
	now, refusal, err := apply.Try(ctx, w, want, mine)
	if now == nil {
		return nil, refusal, err
	}
	return now, refusal, err
}
