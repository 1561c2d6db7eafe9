// Package unit is what runs in the pod of a unit, around its script:
//
//   - Receive (io-init) asks the IO context server for what the script needs, and writes it into
//     the volume that the pod's containers share, beside a copy of the wrapper.
//   - Run (io-run, the wrapper) runs the script in the main container, whatever its image has,
//     and leaves the outputs and a result in the volume.
//   - Deliver (io-sidecar) waits for the result and has the server keep the outputs.
//
// It needs the standard library alone, so that the programs are small. The values of inputs are
// in the volume, which is memory, and in variables of the script; they are in no argument list, no
// log and no termination message.
package unit
