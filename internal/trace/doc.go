// SPDX-License-Identifier: Apache-2.0

// Package trace logs commands to the kernel in the style of strace, which cannot decode them. Each
// has one line with its decoded input, its response or error, and its duration:
//
//	rxe0: UVERBS_METHOD_CQ_CREATE(cqe=100, user_handle=7, comp_channel=fd 8, comp_vector=0) = {handle=1, resp_cqe=127} <12µs>
//	rdma_cm: RESOLVE_ROUTE(ID=3, TimeoutMS=2000) = EINVAL (invalid argument) <3µs>
//
// The sender of commands keeps a *Tracer, made once for its owner (a Host, an event channel), and
// calls Command after each:
//
//	tracer := trace.Select(logger) // nil if nobody wants to know
//	...
//	if tracer != nil {
//		start := time.Now()
//		err := write(cmd)
//		tracer.Command("rdma_cm", "BIND_IP", &cmd, &resp, err, time.Since(start))
//	}
//
// Input and response are a List or pointers to structs of package abi. The log has the fields of a
// struct that are not zero, and all handles. A command that is not traced costs one comparison with
// nil.
package trace
