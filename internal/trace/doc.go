// SPDX-License-Identifier: Apache-2.0

// Package trace writes commands to the kernel down as they are given, as strace
// would if it knew them: one line for each, with its decoded input, its answer or
// error, and how long it took:
//
//	rxe0: UVERBS_METHOD_CQ_CREATE(cqe=100, user_handle=7, comp_channel=fd 8, comp_vector=0) = {handle=1, resp_cqe=127} <12µs>
//	rdma_cm: RESOLVE_ROUTE(ID=3, TimeoutMS=2000) = EINVAL (invalid argument) <3µs>
//
// Who gives commands keeps a *Tracer, made once with what it stands for (a Host,
// an event channel), and calls Command after each:
//
//	tracer := trace.Select(logger) // nil if nobody wants to know
//	...
//	if tracer != nil {
//		start := time.Now()
//		err := write(cmd)
//		tracer.Command("rdma_cm", "BIND_IP", &cmd, &resp, err, time.Since(start))
//	}
//
// Input and answer are pointers to structs of package abi, of which the fields
// that are not zero are shown, and handles, or a List. So a command that is not traced costs
// one comparison with nil.
package trace
