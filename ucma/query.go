// SPDX-License-Identifier: Apache-2.0

package ucma

import (
	"errors"
	"fmt"
	"syscall"

	"purerdma/abi"
)

// Addrs holds the command and the response of QueryAddr and of QueryGID. It can be reused, by one
// call at a time.
type Addrs struct {
	exchange[abi.UcmQuery, abi.UcmQueryAddrResp]
}

// Resp returns the response, which is a part of a.
func (a *Addrs) Resp() *abi.UcmQueryAddrResp { return &a.resp }

// QueryGID returns an ID's addresses as struct sockaddr_ib (RDMA_USER_CM_CMD_QUERY with
// RDMA_USER_CM_QUERY_GID).
func (f *File) QueryGID(id uint32, a *Addrs) error {
	return f.queryAddr(id, a, abi.RDMA_USER_CM_QUERY_GID)
}

// QueryAddr returns an ID's addresses and device (RDMA_USER_CM_CMD_QUERY with
// RDMA_USER_CM_QUERY_ADDR). PortNum is 0 while the ID has no device.
func (f *File) QueryAddr(id uint32, a *Addrs) error {
	return f.queryAddr(id, a, abi.RDMA_USER_CM_QUERY_ADDR)
}

func (f *File) queryAddr(id uint32, a *Addrs, option uint32) error {
	a.cmd = abi.UcmQuery{Response: abi.NewPointer(&a.resp), ID: id, Option: option}
	return a.run(f, abi.RDMA_USER_CM_CMD_QUERY, id)
}

// maxPaths is the number of path records in a query's buffer. A connection has a primary and an
// alternate path, each in both directions.
const maxPaths = 6

// pathAnswer is the response to RDMA_USER_CM_QUERY_PATH, the head and then records.
type pathAnswer struct {
	Head  abi.UcmQueryPathResp
	Paths [maxPaths]abi.IBPathRecData
}

// QueryPath returns an ID's path records (RDMA_USER_CM_CMD_QUERY with RDMA_USER_CM_QUERY_PATH),
// none before the route is resolved.
func (f *File) QueryPath(id uint32) ([]abi.IBPathRecData, error) {
	resp := new(pathAnswer)
	err := runCommandResp(f, abi.RDMA_USER_CM_CMD_QUERY, id, abi.UcmQuery{
		Response: abi.NewPointer(resp),
		ID:       id,
		Option:   abi.RDMA_USER_CM_QUERY_PATH,
	}, resp)
	if err != nil {
		return nil, err
	}
	// NumPaths counts all records, even if only some of them fit.
	return resp.Paths[:min(resp.Head.NumPaths, maxPaths)], nil
}

// A query has room for fewServiceRecs at first. If there are more records, it has room for as many
// as a command can have.
const (
	fewServiceRecs = 16
	maxServiceRecs = 372
)

// Both are responses to RDMA_USER_CM_QUERY_IB_SERVICE.
type (
	serviceAnswer struct {
		Head abi.UcmQueryIBServiceResp
		Recs [fewServiceRecs]abi.IBUserServiceRec
	}
	serviceAnswers struct {
		Head abi.UcmQueryIBServiceResp
		Recs [maxServiceRecs]abi.IBUserServiceRec
	}
)

// QueryIBService returns the service records that ResolveIBService found (RDMA_USER_CM_CMD_QUERY
// with RDMA_USER_CM_QUERY_IB_SERVICE), at most 372. It returns errors.ErrUnsupported if the kernel
// lacks the option.
func (f *File) QueryIBService(id uint32) ([]abi.IBUserServiceRec, error) {
	few := new(serviceAnswer)
	if err := queryIBService(f, id, few); err != nil {
		return nil, err
	}
	// NumServiceRecs counts all records, even if only some of them fit.
	if few.Head.NumServiceRecs <= fewServiceRecs {
		return few.Recs[:few.Head.NumServiceRecs], nil
	}
	many := new(serviceAnswers)
	if err := queryIBService(f, id, many); err != nil {
		return nil, err
	}
	return many.Recs[:min(many.Head.NumServiceRecs, maxServiceRecs)], nil
}

func queryIBService[R any](f *File, id uint32, resp *R) error {
	err := runCommandResp(f, abi.RDMA_USER_CM_CMD_QUERY, id, abi.UcmQuery{
		Response: abi.NewPointer(resp),
		ID:       id,
		Option:   abi.RDMA_USER_CM_QUERY_IB_SERVICE,
	}, resp)
	if errors.Is(err, syscall.ENOSYS) {
		err = &OpError{Op: "QUERY IB_SERVICE", ID: id, Err: fmt.Errorf("this kernel lacks the option, which is new in Linux 7.3: %w", errors.ErrUnsupported)}
	}
	return err
}
