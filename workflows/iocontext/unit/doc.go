// Package unit has the programs in the pod of a unit, around its script:
//
//   - Receive (io-init) requests the script and its inputs from the IO context server, and writes them
//     into the volume that the pod's containers share, with a copy of the wrapper.
//   - Run (io-run, the wrapper) runs the script in the main container, with any image,
//     and leaves the outputs and a result in the volume.
//   - Deliver (io-sidecar) waits for the result and sends the outputs to the server.
//
// It uses only the standard library, so that the programs are small. The values of inputs are in
// the volume, which is in memory, and in variables of the script; they are in no argument list,
// no log and no termination message.
package unit
