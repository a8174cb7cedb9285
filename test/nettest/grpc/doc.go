// SPDX-License-Identifier: Apache-2.0

// Package grpc runs the interoperability tests of gRPC on connections of package stream, with the client and
// the server of google.golang.org/grpc/interop. It is a module of its own, so that importers of purerdma
// never get gRPC.
//
// Some test cases are left out, because they do not depend on the connection. They need services of Google
// (credentials) or a load balancer (ORCA). pick_first_unary needs a server with an ID, which gRPC's server
// for Go does not have.
//
// Program grpcperf, in the directory of the same name, runs gRPC's benchmark.
package grpc
