// SPDX-License-Identifier: Apache-2.0

package prm

// The commands below have nothing but the number of one object. A number is where
// all commands have it: in the low 24 bits of the third dword.

// ObjectIn is the input of commands that name one object.
var ObjectIn = struct{ Opcode, UID, OpMod, Number Field }{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	Number: bits(0x08, 23, 0),
}

// ObjectOut is the output of commands that make one object.
var ObjectOut = struct{ Status, Syndrome, Number Field }{
	Status: HeaderOut.Status, Syndrome: HeaderOut.Syndrome,
	Number: bits(0x08, 23, 0),
}
