// SPDX-License-Identifier: Apache-2.0

package prm

// The commands below only contain the number of one object. It is in the low 24 bits of the
// third dword, as in all commands.

// ObjectIn is the input of commands on one object.
var ObjectIn = struct{ Opcode, UID, OpMod, Number Field }{
	Opcode: HeaderIn.Opcode, UID: HeaderIn.UID, OpMod: HeaderIn.OpMod,
	Number: bits(0x08, 23, 0),
}

// ObjectOut is the output of commands that create one object.
var ObjectOut = struct{ Status, Syndrome, Number Field }{
	Status: HeaderOut.Status, Syndrome: HeaderOut.Syndrome,
	Number: bits(0x08, 23, 0),
}
