// SPDX-License-Identifier: Apache-2.0

// Package litmus checks the memory order of the protocols in shared memory. These are the rings of
// rxe and siw, and the queues and doorbells of mlx5. An emulator on amd64 does not reorder memory accesses
// as an arm64 processor does, so no test that runs the code shows a missing barrier.
//
// Each file of testdata describes one protocol, with the accesses of the program and of the other
// side, the kernel or the device. The package model enumerates all executions that the
// memory models of amd64 and arm64 allow. None of them may have a forbidden outcome. The test then
// removes each barrier in turn, and such an outcome must become possible. So the file shows that
// the barriers are enough, and that the check finds a missing one.
//
// A file names the functions that it describes, with their instructions in order. The test
// compares them with the source.
//
// # Files
//
//	# comment
//	code FILE FUNCTION: TEXT; TEXT    the function contains these texts, in this order
//	thread NAME                       a goroutine; kernel NAME and device NAME are the other side
//		load r x                      r = x
//		store x 1
//		atomic.load r x               sync/atomic
//		atomic.store x 1
//		atomic.swap r x 1
//		release x 1                   StoreRelease of provider/internal/spin
//		register x 1                  a store to a register of a device, or to write-combining memory.
//		                              A store to an uncached register is a plain store
//		arm64: DMB OSHST              an instruction of the assembly, on one architecture
//		READ_ONCE r x                 also smp_load_acquire, WRITE_ONCE, smp_store_release,
//		                              smp_store_mb, smp_mb, smp_wmb, spin_lock r x 1, spin_unlock x 1
//		if r                          the stores below depend on the loaded r
//	never r=1 s=0                     no execution may end like this; [x]=1 is the final memory
//	sometimes r=1 s=1                 some execution ends like this
//	arm64: fault r=1 s=0              the kernel allows this outcome, although it should not
//
// The line of a barrier that the order does not need ends with "spare" and an architecture. The
// test checks this claim.
package litmus
