// Messages over a two-tier Clos, packet by packet, with ns-3 3.44: reads a line a message from
// standard input (source, target, spine or -1, bytes, start in us, messages that it waits for), and
// prints when the last byte of each has arrived, in ms.
//
// A host has an address for each spine, in a network of its own: ns-3 sends from the address that
// shares the network of the target, and switches forward a network over its spine, so that packets
// and their acknowledgements keep to the path of their message. Connections are opened beforehand.
// Messages of one path that wait for each other share one, all others have one of their own.

#include "ns3/core-module.h"
#include "ns3/internet-module.h"
#include "ns3/network-module.h"
#include "ns3/point-to-point-module.h"
#include "ns3/traffic-control-module.h"

#include <algorithm>
#include <cstdio>
#include <iostream>
#include <map>
#include <sstream>
#include <vector>

using namespace ns3;

struct Message
{
    int source, target, spine;
    uint64_t bytes;
    double startUs;
    std::vector<int> after, followers;
    int waits = 0, connection = -1;
    double finishS = -1;
};

struct Connection
{
    Ptr<Socket> sender;
    uint64_t unsent = 0, queued = 0, arrived = 0;
    std::vector<std::pair<uint64_t, int>> ends; // byte after the last of each message
    size_t finished = 0;
};

const double BEGIN_S = 0.1; // connections are open by then
const int SERVER_PORT = 5000, FIRST_PORT = 10000;

std::vector<Message> messages;
std::vector<Connection> connections;
size_t finishedMessages = 0;
int hostsALeaf = 4;

Ipv4Address
Network(int spine)
{
    return Ipv4Address((10u << 24) | ((spine + 1) << 16));
}

Ipv4Address
AddressOf(int host, int spine)
{
    return Ipv4Address(Network(spine).Get() | ((host / hostsALeaf) << 8) | (host % hostsALeaf + 1));
}

void
Push(int index)
{
    auto& connection = connections[index];
    while (connection.unsent > 0)
    {
        uint64_t room = connection.sender->GetTxAvailable();
        uint32_t size = std::min(connection.unsent, room);
        if (!size || connection.sender->Send(Create<Packet>(size)) <= 0)
        {
            return;
        }
        connection.unsent -= size;
    }
}

void
Start(int index)
{
    auto& connection = connections[messages[index].connection];
    connection.unsent += messages[index].bytes;
    connection.queued += messages[index].bytes;
    connection.ends.emplace_back(connection.queued, index);
    Push(messages[index].connection);
}

void
StartInTime(int index)
{
    double inS = BEGIN_S + 1e-6 * messages[index].startUs - Simulator::Now().GetSeconds();
    Simulator::Schedule(Seconds(std::max(0.0, inS)), &Start, index);
}

void
Arrived(int index, Ptr<Socket> socket)
{
    auto& connection = connections[index];
    while (Ptr<Packet> packet = socket->Recv())
    {
        connection.arrived += packet->GetSize();
    }
    while (connection.finished < connection.ends.size() &&
           connection.arrived >= connection.ends[connection.finished].first)
    {
        auto& message = messages[connection.ends[connection.finished++].second];
        message.finishS = Simulator::Now().GetSeconds() - BEGIN_S;
        if (++finishedMessages == messages.size())
        {
            Simulator::Stop();
        }
        for (int follower : message.followers)
        {
            if (!--messages[follower].waits)
            {
                StartInTime(follower);
            }
        }
    }
}

void
Accepted(Ptr<Socket> socket, const Address& from)
{
    int index = InetSocketAddress::ConvertFrom(from).GetPort() - FIRST_PORT;
    socket->SetRecvCallback([index](Ptr<Socket> socket) { Arrived(index, socket); });
}

void
Configure(const std::string& transport)
{
    bool marks = transport == "ecn";
    auto set = [](const char* name, const AttributeValue& value) {
        Config::SetDefault(name, value);
    };
    set("ns3::TcpL4Protocol::SocketType",
        TypeIdValue(TypeId::LookupByName(marks ? "ns3::TcpDctcp" : "ns3::TcpCubic")));
    set("ns3::TcpSocketBase::UseEcn", StringValue("On"));
    set("ns3::TcpSocket::SegmentSize", UintegerValue(8900));
    set("ns3::TcpSocket::InitialCwnd", UintegerValue(10));
    set("ns3::TcpSocket::DelAckCount", UintegerValue(1));
    set("ns3::TcpSocket::SndBufSize", UintegerValue(1 << 24)); // no limit of windows
    set("ns3::TcpSocket::RcvBufSize", UintegerValue(1 << 24));
    QueueSizeValue noLosses(QueueSize("100000p"));
    set("ns3::FqCoDelQueueDisc::MaxSize", noLosses);
    set("ns3::FqCoDelQueueDisc::UseEcn", BooleanValue(true)); // marks where it would drop
    set("ns3::FqCoDelQueueDisc::Target", StringValue("100us"));
    set("ns3::FqCoDelQueueDisc::Interval", StringValue("1ms"));
    set("ns3::RedQueueDisc::MaxSize", noLosses);
    set("ns3::RedQueueDisc::UseEcn", BooleanValue(true));
    set("ns3::RedQueueDisc::UseHardDrop", BooleanValue(false));
    set("ns3::RedQueueDisc::MeanPktSize", UintegerValue(8954));
    set("ns3::RedQueueDisc::QW", DoubleValue(1)); // marks by the queue of the moment
    set("ns3::RedQueueDisc::MinTh", DoubleValue(20));
    set("ns3::RedQueueDisc::MaxTh", DoubleValue(20));
}

void
ReadMessages()
{
    std::string line;
    while (std::getline(std::cin, line))
    {
        std::istringstream words(line);
        Message message;
        words >> message.source >> message.target >> message.spine >> message.bytes >>
            message.startUs;
        for (int other; words >> other;)
        {
            message.after.push_back(other);
        }
        message.waits = message.after.size();
        for (int other : message.after)
        {
            const auto& before = messages.at(other);
            if (before.source == message.source && before.target == message.target &&
                before.spine == message.spine)
            {
                message.connection = before.connection;
            }
        }
        if (message.connection < 0)
        {
            message.connection = connections.size();
            connections.emplace_back();
        }
        messages.push_back(message);
    }
    for (size_t index = 0; index < messages.size(); index++)
    {
        for (int other : messages[index].after)
        {
            messages[other].followers.push_back(index);
        }
    }
}

int
main(int argc, char* argv[])
{
    std::string transport = "fair-queue";
    int leaves = 4, spines = 4;
    const double hostGbps = 10;
    double uplinkGbps = 10;
    CommandLine command;
    command.AddValue("transport", "fair-queue or ecn", transport);
    command.AddValue("leaves", "leaves", leaves);
    command.AddValue("hosts_a_leaf", "hosts of a leaf", hostsALeaf);
    command.AddValue("spines", "spines", spines);
    command.AddValue("uplink_gbps", "rate between leaf and spine", uplinkGbps);
    command.Parse(argc, argv);
    Configure(transport);
    ReadMessages();

    NodeContainer hosts, leafs, tops;
    hosts.Create(leaves * hostsALeaf);
    leafs.Create(leaves);
    tops.Create(spines);
    Ipv4StaticRoutingHelper routing;
    InternetStackHelper stack;
    stack.SetRoutingHelper(routing);
    stack.SetIpv6StackInstall(false);
    stack.InstallAll();
    TrafficControlHelper queues;
    queues.SetRootQueueDisc(transport == "ecn" ? "ns3::RedQueueDisc" : "ns3::FqCoDelQueueDisc");
    auto routes = [&](Ptr<Node> node) {
        return routing.GetStaticRouting(node->GetObject<Ipv4>());
    };

    int links = 0;
    auto join = [&](Ptr<Node> lower, Ptr<Node> upper, double gbps) {
        PointToPointHelper wire;
        wire.SetDeviceAttribute("DataRate", DataRateValue(DataRate(uint64_t(1e9 * gbps))));
        wire.SetDeviceAttribute("Mtu", UintegerValue(9000));
        wire.SetChannelAttribute("Delay", StringValue("1us"));
        wire.SetQueue("ns3::DropTailQueue", "MaxSize", StringValue("1p")); // all wait in the queue
        auto devices = wire.Install(lower, upper);
        queues.Install(devices);
        std::vector<uint32_t> ends;
        for (int end = 0; end < 2; end++)
        {
            auto ip = devices.Get(end)->GetNode()->GetObject<Ipv4>();
            ends.push_back(ip->AddInterface(devices.Get(end)));
            Ipv4Address own((172u << 24) | (16u << 16) | (2 * links + end + 1));
            ip->AddAddress(ends[end], Ipv4InterfaceAddress(own, Ipv4Mask::GetOnes()));
            ip->SetUp(ends[end]);
        }
        links++;
        return ends;
    };
    for (int host = 0; host < leaves * hostsALeaf; host++)
    {
        auto leaf = leafs.Get(host / hostsALeaf);
        auto ends = join(hosts.Get(host), leaf, hostGbps);
        for (int spine = -1; spine < spines; spine++)
        {
            hosts.Get(host)->GetObject<Ipv4>()->AddAddress(
                ends[0],
                Ipv4InterfaceAddress(AddressOf(host, spine), Ipv4Mask("255.255.0.0")));
            routes(leaf)->AddHostRouteTo(AddressOf(host, spine), ends[1]);
        }
        auto server = Socket::CreateSocket(hosts.Get(host), TcpSocketFactory::GetTypeId());
        server->Bind(InetSocketAddress(Ipv4Address::GetAny(), SERVER_PORT));
        server->Listen();
        server->SetAcceptCallback(MakeNullCallback<bool, Ptr<Socket>, const Address&>(),
                                  MakeCallback(&Accepted));
    }
    for (int leaf = 0; leaf < leaves; leaf++)
    {
        for (int spine = 0; spine < spines; spine++)
        {
            auto ends = join(leafs.Get(leaf), tops.Get(spine), uplinkGbps);
            routes(leafs.Get(leaf))
                ->AddNetworkRouteTo(Network(spine), Ipv4Mask("255.255.0.0"), ends[0]);
            Ipv4Address below(Network(spine).Get() | (leaf << 8));
            routes(tops.Get(spine))->AddNetworkRouteTo(below, Ipv4Mask("255.255.255.0"), ends[1]);
        }
    }
    for (size_t index = 0; index < messages.size(); index++)
    {
        const auto& message = messages[index];
        int number = message.connection;
        if (!connections[number].sender)
        {
            auto sender =
                Socket::CreateSocket(hosts.Get(message.source), TcpSocketFactory::GetTypeId());
            sender->Bind(InetSocketAddress(AddressOf(message.source, message.spine),
                                           FIRST_PORT + number));
            InetSocketAddress server(AddressOf(message.target, message.spine), SERVER_PORT);
            Simulator::Schedule(MicroSeconds(100 * number),
                                [sender, server]() { sender->Connect(server); });
            sender->SetSendCallback([number](Ptr<Socket>, uint32_t) { Push(number); });
            connections[number].sender = sender;
        }
        if (!message.waits)
        {
            Simulator::Schedule(Seconds(BEGIN_S + 1e-6 * message.startUs), &Start, int(index));
        }
    }
    Simulator::Stop(Seconds(BEGIN_S + 10));
    Simulator::Run();
    for (const auto& message : messages)
    {
        std::printf("%.4f\n", 1e3 * message.finishS);
    }
    Simulator::Destroy();
    return 0;
}
