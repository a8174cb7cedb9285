// SPDX-License-Identifier: Apache-2.0

package tracediff

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"purerdma/test/connectx/prm"
)

// numbersOf lists the fields with numbers of objects and addresses, which differ between runs.
var numbersOf = []string{"PD", "UARPage", "UserIndex", "SendCQN", "RecvCQN", "SRQN", "XRCD", "EQN", "DBRAddr"}

// fields formats a context as text. It omits zero fields, and fields that refer to objects.
// table is a table of package prm.
func fields(table any, context []byte) string {
	v := reflect.ValueOf(table).Elem()
	var words []string
	for i := range v.NumField() {
		f, ok := v.Field(i).Interface().(prm.Field)
		name := v.Type().Field(i).Name
		if !ok || slices.Contains(numbersOf, name) || !f.Is(context) {
			continue
		}
		words = append(words, fmt.Sprintf("%s %d", name, f.Get(context)))
	}
	return strings.Join(words, ", ")
}

// input is the length of the inputs of create commands. The trace omits trailing zeros.
const input = 0x110

// create processes a command that creates an object. in is its input. out is its output from
// the number of the object on.
func (d *device) create(command string, out, in []byte) error {
	if len(in) > input || len(out) < 4 {
		return fmt.Errorf("%s with %d bytes, answered by %d", command, len(in), len(out))
	}
	in = append(in, make([]byte, input-len(in))...)
	// The number is at its place after the header.
	n := prm.ObjectOut.Number.Get(append(make([]byte, 8), out...))
	switch command {
	case "CREATE_CQ":
		d.cqs[n] = &cq{made: fields(&prm.CQC, prm.CQIn.Context.Of(in))}
	case "CREATE_MKEY":
		m := mkey(prm.CreateMkeyIn.Context.Of(in)[:prm.MkeyLen])
		d.mkeys[n] = &m
	case "CREATE_RMP":
		c := prm.RMPIn.Context.Of(in)
		d.srqs[n] = fields(&prm.WQ, prm.RMPC.WQ.Of(c))
	case "CREATE_QP":
		c := prm.QPIn.Context.Of(in)
		q := &queue{made: fields(&prm.QPC, c), d: d, seen: make(map[string][]string), keys: make(map[uint32]key), used: make(map[uint32]bool)}
		if !prm.QPC.NoSQ.Is(c) {
			q.send = d.cqs[prm.QPC.SendCQN.Get(c)]
		}
		switch prm.QPC.RQType.Get(c) {
		case prm.RQShared:
			q.srq = d.srqs[prm.QPC.SRQN.Get(c)]
			fallthrough
		case prm.RQRegular:
			q.recv = d.cqs[prm.QPC.RecvCQN.Get(c)]
		}
		d.queues[n] = q
	}
	return nil
}
