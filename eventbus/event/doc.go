// Package event defines facts and their encoding.
//
// A Fact is one statement about the present: which workloads a routing key
// reaches, how a sandboxed workload is reached, or that the log is whole. It
// carries the whole value of its Key, so the newest fact of each key is enough.
//
// In the log a fact is a CloudEvents 1.0 event in the binary mode of the NATS
// binding: attributes are headers (ce-id, ce-type, ce-subject, ...), the data is
// protobuf JSON, compact and always the same bytes for the same value, so that
// it can be read by any CloudEvents reader, and by people. Encode and Decode
// turn one into the other:
//
//	ce-specversion  1.0
//	ce-id           hash of all that is here but causevia: the same statement has the same id
//	ce-source       switchyard.dev/reconcilers
//	ce-type         dev.switchyard.routing.declared.v1
//	ce-subject      the key: key/alice, workload/ForkedWorkload/shop/customer
//	ce-time         2026-11-21T08:00:00.123456789Z
//	ce-datacontenttype  application/json
//	ce-recordedtime  when the log took it, for "the table at 14:03"
//	ce-chain         checksum of this event and of all before it (Chain)
//	ce-causekind, ce-causenamespace, ce-causename, ce-causeuid,
//	ce-causegeneration, ce-causemanager, ce-causevia, ce-traceparent   the Cause
//
// ce-recordedtime and ce-chain are added when the fact is recorded (Seal). They make a log that
// can be audited: Check finds the first event that was altered, dropped, inserted or moved,
// unless everything after it was resealed. That is detected with a Mark that was kept
// elsewhere.
//
// Changing the format: fields may be added to a message; a change that an older
// reader must not misunderstand needs a new type (…v2), which older readers
// pass over (ErrUnknownType).
//
// The package is pure: values in, values out.
package event
