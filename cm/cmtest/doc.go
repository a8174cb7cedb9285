// SPDX-License-Identifier: Apache-2.0

// Package cmtest is a kernel with a connection manager in this process, for tests of
// programs that use package cm on machines without RDMA.
//
//	k := cmtest.New(uverbstest.New("rxe0", "rxe1"))
//	listener, err := (&cm.ListenConfig{Host: k.Host()}).Listen(ctx, "tcp", "10.0.0.1:7471")
//	...
//	conn, err := (&cm.Dialer{Host: k.Host()}).Dial(ctx, "tcp", "10.0.0.1:7471")
//
// [New] takes the devices from another fake kernel. Package uverbstest has devices of rxe, siw and
// erdma, and package inprocess has devices of mlx5. The n-th device has the address 10.0.0.n. All
// devices are on one network. The connection manager answers every command as Linux does for RoCE, with
// the same events, statuses, limits and errnos. It covers connections (network "tcp") and
// datagrams ("udp"). It does not support the services of InfiniBand. If the devices are iWARP
// devices, the kernel moves the QPs, and both sides get ESTABLISHED and DISCONNECTED as on iWARP.
// Commands still have the limits and errors of RoCE.
//
// Three things differ from Linux. A message arrives before the command that sends it
// returns, unless [Kernel.OnMessage] delays it. An unanswered message is repeated after
// [Kernel.Retry] instead of after seconds. If a peer has received a request and does not
// answer, the Kernel waits without limit.
//
// [Kernel.OnCommand] makes commands fail. [Kernel.OnMessage] loses or delays messages.
// [Kernel.Remove] removes a device, and [Kernel.Unplug] disconnects one from the network.
// [Kernel.Left] lists the objects that a program has not closed.
//
// Programs that have a device open do not work inside a bubble of testing/synctest. The
// device's events arrive through pipes, and a bubble does not wait for pipes.
package cmtest
