"""deploy/kubernetes: builds with kustomize, is typed as Kubernetes wants it, and says what it is meant to.

Types are those of kinds.json.
"""

from __future__ import annotations

import os
import re
import tempfile
import unittest

import kinds
import manifests
import support
import yaml

# How long a drain goes on after its grace: server/server.cc, kInterruptedGrace and kSendingGrace.
AFTER_GRACE_SECONDS = 2.5
# Comes with the store that replicas share.
AWAITED_FLAGS = {"store"}


def make_certificates(folder: str) -> None:
    """The files of the Secret hapmoed-tls, as cert-manager would make them."""

    def openssl(*arguments: str) -> None:
        made = support.run("openssl", *arguments, cwd=folder)
        if made.returncode != 0:
            raise AssertionError(made.stderr)

    new_key = ("-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
    openssl(
        "req",
        "-x509",
        *new_key,
        "-keyout",
        "ca.key",
        "-out",
        "ca.crt",
        "-days",
        "2",
        "-subj",
        "/CN=issuer",
    )
    openssl("req", *new_key, "-keyout", "tls.key", "-out", "tls.csr", "-subj", "/CN=hapmoed")
    with open(os.path.join(folder, "names"), "w", encoding="utf-8") as file:
        file.write(
            "subjectAltName=DNS:hapmoed,DNS:hapmoed.hapmoe.svc\nextendedKeyUsage=serverAuth,clientAuth\n"
        )
    openssl(
        "x509",
        "-req",
        "-in",
        "tls.csr",
        "-CA",
        "ca.crt",
        "-CAkey",
        "ca.key",
        "-CAcreateserial",
        "-out",
        "tls.crt",
        "-days",
        "2",
        "-extfile",
        "names",
    )


class KindsTest(unittest.TestCase):
    """The checker itself: each of these is refused."""

    def test_finds_what_is_wrong(self) -> None:
        service = {"apiVersion": "v1", "kind": "Service", "metadata": {"name": "x"}}
        port = {"port": 1, "targetPort": "grpc"}
        for spec, fault in (
            ({"ports": [port]}, None),
            ({"ports": [{**port, "port": "1"}]}, "Service.spec.ports[0].port: '1' is no int"),
            ({"ports": [{"name": "grpc"}]}, "Service.spec.ports[0].port: missing"),
            ({"ports": port}, "Service.spec.ports: no list"),
            ({"selectors": {}}, "Service.spec.selectors: unknown"),
            ({"selector": {"a": True}}, "Service.spec.selector.a: True is no string"),
        ):
            faults = kinds.Kinds().faults({**service, "spec": spec})
            self.assertEqual(faults, [fault] if fault else [])
        self.assertEqual(
            kinds.Kinds().faults({"apiVersion": "v2", "kind": "Service"}),
            ["unknown kind v2 Service"],
        )


class OverlayTest:
    """What holds for every overlay."""

    overlay = ""
    kinds: set[str] = set()

    @classmethod
    def setUpClass(cls) -> None:
        cls.built = manifests.Built(cls.overlay)

    def test_has_only_fields_and_types_of_its_kinds(self) -> None:
        self.assertEqual(
            [fault for thing in self.built.objects for fault in kinds.Kinds().faults(thing)], []
        )

    def test_holds_the_kinds_that_it_is_for(self) -> None:
        self.assertEqual({thing["kind"] for thing in self.built.objects}, self.kinds)


class PlannerTest(OverlayTest):
    """What holds for every overlay that runs the planner."""

    def test_is_in_one_namespace_which_holds_pods_to_the_restricted_standard(self) -> None:
        built = self.built
        namespace = built.of_kind("Namespace")[0]["metadata"]
        self.assertEqual(namespace["labels"]["pod-security.kubernetes.io/enforce"], "restricted")
        others = {t["metadata"]["namespace"] for t in built.objects if t["kind"] != "Namespace"}
        self.assertEqual(others, {namespace["name"]})

    def test_keeps_the_restricted_standard(self) -> None:
        # Kubernetes' Pod Security Standards, "Restricted".
        built = self.built
        pod = built.pod["spec"]
        self.assertTrue(pod["securityContext"]["runAsNonRoot"])
        self.assertGreater(pod["securityContext"]["runAsUser"], 0)
        self.assertEqual(pod["securityContext"]["seccompProfile"], {"type": "RuntimeDefault"})
        for field in ("hostNetwork", "hostPID", "hostIPC", "initContainers"):
            self.assertNotIn(field, pod)
        self.assertLessEqual(
            {kind for volume in pod.get("volumes", ()) for kind in volume if kind != "name"},
            {
                "configMap",
                "downwardAPI",
                "emptyDir",
                "persistentVolumeClaim",
                "projected",
                "secret",
            },
        )
        for container in pod["containers"]:
            security = container["securityContext"]
            self.assertEqual(security["capabilities"], {"drop": ["ALL"]})
            self.assertFalse(security["allowPrivilegeEscalation"])
            self.assertNotIn("privileged", security)
            self.assertFalse(any("hostPort" in port for port in container["ports"]))
            # Beyond the standard.
            self.assertTrue(security["readOnlyRootFilesystem"])

    def test_holds_no_token(self) -> None:
        built = self.built
        account = built.of_kind("ServiceAccount")[0]
        self.assertEqual(built.pod["spec"]["serviceAccountName"], account["metadata"]["name"])
        self.assertFalse(account["automountServiceAccountToken"])
        self.assertFalse(built.pod["spec"]["automountServiceAccountToken"])

    def test_runs_as_the_user_of_the_image(self) -> None:
        with open(os.path.join(support.ROOT, "Dockerfile"), encoding="utf-8") as file:
            user, group = re.search(r"^USER (\d+):(\d+)$", file.read(), re.M).groups()
        built = self.built
        context = built.pod["spec"]["securityContext"]
        self.assertEqual((context["runAsUser"], context["runAsGroup"]), (int(user), int(group)))
        self.assertEqual(context["fsGroup"], int(group))

    def test_every_selector_takes_the_pods(self) -> None:
        built = self.built
        labels = built.pod["metadata"]["labels"].items()
        selectors = [s["spec"]["selector"] for s in built.of_kind("Service")]
        for kind in ("Deployment", "PodDisruptionBudget"):
            selectors += [t["spec"]["selector"]["matchLabels"] for t in built.of_kind(kind)]
        selectors += [
            t["spec"]["podSelector"]["matchLabels"] for t in built.of_kind("NetworkPolicy")
        ]
        selectors += [
            spread["labelSelector"]["matchLabels"]
            for spread in built.pod["spec"].get("topologySpreadConstraints", ())
        ]
        self.assertGreaterEqual(len(selectors), 4)
        for selector in selectors:
            self.assertTrue(selector and selector.items() <= labels, selector)

    def test_ports_are_those_that_the_server_listens_on(self) -> None:
        built = self.built
        ports = {p["name"]: p["containerPort"] for p in built.container["ports"]}
        self.assertEqual(
            {"grpc": built.flags["listen"], "metrics": built.flags["metrics_listen"]},
            {name: f"0.0.0.0:{port}" for name, port in ports.items()},
        )
        for service in built.of_kind("Service"):
            for port in service["spec"]["ports"]:
                self.assertEqual(port["port"], ports[port["targetPort"]])
        allowed = {
            port["port"]
            for policy in built.of_kind("NetworkPolicy")
            for rule in policy["spec"].get("ingress", ())
            for port in rule["ports"]
        }
        self.assertEqual(allowed, set(ports.values()))

    def test_flags_are_the_servers_own(self) -> None:
        flags = support.server_flags()
        self.assertLessEqual(set(self.built.flags) - AWAITED_FLAGS, set(flags))

    def test_a_pod_is_given_the_time_to_drain(self) -> None:
        built = self.built
        wait = float(built.container["lifecycle"]["preStop"]["exec"]["command"][1])
        grace = float(built.flags["drain_grace"].removesuffix("s"))
        self.assertGreaterEqual(
            built.pod["spec"]["terminationGracePeriodSeconds"],
            wait + grace + AFTER_GRACE_SECONDS + 5,
        )

    def test_searches_on_the_processors_that_it_asks_for(self) -> None:
        built = self.built
        resources = built.container["resources"]
        self.assertEqual(
            float(built.flags["search_threads"]), manifests.amount(resources["requests"]["cpu"])
        )
        self.assertNotIn("cpu", resources["limits"])

    def test_alert_on_memory_knows_the_limit(self) -> None:
        rules = yaml.safe_load(support.read("prometheus", "rules.yaml"))
        built = self.built
        limit = manifests.amount(built.container["resources"]["limits"]["memory"])
        (expression,) = (
            rule["expr"]
            for group in rules["groups"]
            for rule in group["rules"]
            if rule.get("alert") == "HapmoeNearsItsMemory"
        )
        share, *factors = re.findall(r"[\d.]+", expression.split(">")[1])
        product = 1
        for factor in factors:
            product *= int(factor)
        self.assertEqual((float(share), product), (0.9, limit))

    def test_one_service_is_scraped(self) -> None:
        (monitor,) = manifests.Built("monitoring").of_kind("ServiceMonitor")
        selector = monitor["spec"]["selector"]["matchLabels"].items()
        (endpoint,) = monitor["spec"]["endpoints"]
        built = self.built
        scraped = [
            service["metadata"]["name"]
            for service in built.of_kind("Service")
            if selector <= service["metadata"]["labels"].items()
            and endpoint["port"] in {port["name"] for port in service["spec"]["ports"]}
        ]
        # Rules are for the job of this name.
        self.assertEqual(scraped, ["hapmoed"])


class GrpcProbesTest(PlannerTest):
    """What holds where the kubelet can ask the server."""

    def test_probes_ask_services_that_the_server_has(self) -> None:
        with open(
            os.path.join(support.ROOT, "proto/hapmoe/v1/planner.proto"), encoding="utf-8"
        ) as file:
            proto = file.read()
        package = re.search(r"^package ([\w.]+);", proto, re.M).group(1)
        services = {f"{package}.{name}" for name in re.findall(r"^service (\w+)", proto, re.M)}
        built = self.built
        grpc = {p["name"]: p["containerPort"] for p in built.container["ports"]}["grpc"]
        for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
            self.assertEqual(built.container[probe]["grpc"]["port"], grpc)
        self.assertIn(built.container["readinessProbe"]["grpc"]["service"], services)
        # A server that has no profiles, or drains, is not to be restarted for it.
        self.assertNotIn("service", built.container["livenessProbe"]["grpc"])


COMMON = {
    "Namespace",
    "ServiceAccount",
    "Deployment",
    "Service",
    "PodDisruptionBudget",
    "NetworkPolicy",
}


class SingleTest(GrpcProbesTest, unittest.TestCase):
    overlay = "single"
    kinds = COMMON | {"PersistentVolumeClaim"}

    def test_keeps_its_state_and_shares_it_with_none(self) -> None:
        deployment = self.built.of_kind("Deployment")[0]["spec"]
        self.assertEqual(
            (deployment["replicas"], deployment["strategy"]), (1, {"type": "Recreate"})
        )
        (volume,) = self.built.pod["spec"]["volumes"]
        claim = volume["persistentVolumeClaim"]["claimName"]
        self.assertEqual(
            [claim], [c["metadata"]["name"] for c in self.built.of_kind("PersistentVolumeClaim")]
        )
        (mount,) = self.built.container["volumeMounts"]
        self.assertEqual(
            (mount["name"], mount["mountPath"]), (volume["name"], self.built.flags["state_dir"])
        )

    def test_reaches_nothing(self) -> None:
        (policy,) = self.built.of_kind("NetworkPolicy")
        self.assertIn("Egress", policy["spec"]["policyTypes"])
        self.assertEqual(policy["spec"].get("egress", []), [])


class ReplicasTest(GrpcProbesTest, unittest.TestCase):
    overlay = "replicas"
    kinds = COMMON | {"HorizontalPodAutoscaler"}

    def test_replicas_are_the_autoscalers_and_keep_nothing(self) -> None:
        deployment = self.built.of_kind("Deployment")[0]
        self.assertNotIn(
            "replicas", deployment["spec"]
        )  # Else every apply would undo the autoscaler's number.
        (scaler,) = self.built.of_kind("HorizontalPodAutoscaler")
        self.assertEqual(
            scaler["spec"]["scaleTargetRef"],
            {
                "apiVersion": deployment["apiVersion"],
                "kind": "Deployment",
                "name": deployment["metadata"]["name"],
            },
        )
        self.assertGreaterEqual(scaler["spec"]["minReplicas"], 2)
        self.assertEqual(deployment["spec"]["strategy"]["rollingUpdate"]["maxUnavailable"], 0)
        self.assertNotIn("state_dir", self.built.flags)
        self.assertNotIn("volumes", self.built.pod["spec"])

    def test_no_argument_holds_the_password_of_the_store(self) -> None:
        store = re.fullmatch(r"postgresql://([^@]*)@[\w.-]+:(\d+)/\w+", self.built.flags["store"])
        self.assertIsNotNone(store)
        self.assertNotIn(":", store.group(1))
        (password,) = self.built.container["env"]
        self.assertEqual(password["name"], "PGPASSWORD")
        self.assertEqual(set(password["valueFrom"]), {"secretKeyRef"})
        reached = {
            port["port"]
            for policy in self.built.of_kind("NetworkPolicy")
            for rule in policy["spec"].get("egress", ())
            for port in rule["ports"]
        }
        self.assertEqual(reached, {53, int(store.group(2))})

    def test_long_connections_see_every_replica(self) -> None:
        addresses = {
            s["metadata"]["name"]: s["spec"].get("clusterIP") for s in self.built.of_kind("Service")
        }
        self.assertEqual(addresses, {"hapmoed": None, "hapmoed-replicas": "None"})


class TlsTest(PlannerTest, unittest.TestCase):
    overlay = "tls"
    kinds = SingleTest.kinds

    def test_the_readiness_probe_is_answered_and_callers_without_a_certificate_are_not(
        self,
    ) -> None:
        (secret,) = (volume for volume in self.built.pod["spec"]["volumes"] if "secret" in volume)
        (mount,) = (m for m in self.built.container["volumeMounts"] if m["name"] == secret["name"])
        with tempfile.TemporaryDirectory() as folder:
            make_certificates(folder)
            flags = [
                f"--{flag}={value}".replace(mount["mountPath"], folder)
                for flag, value in self.built.flags.items()
                if flag.startswith("tls_")
            ]
            environment = {
                one["name"]: one["value"].replace(mount["mountPath"], folder)
                for one in self.built.container["env"]
            }
            probe = self.built.container["readinessProbe"]["exec"]["command"]
            self.assertEqual(probe[0], "hapmoe")
            with support.Server(*flags, environment=environment) as server:
                self.assertEqual(server.client(*probe[1:]).returncode, 0)
                for name in ("HAPMOE_TLS_CERT", "HAPMOE_TLS_KEY"):
                    del server.environment[name]
                self.assertNotEqual(server.client(*probe[1:]).returncode, 0)

    def test_other_probes_need_no_certificate(self) -> None:
        for probe in ("startupProbe", "livenessProbe"):
            self.assertIn("tcpSocket", self.built.container[probe])
            self.assertNotIn("grpc", self.built.container[probe])


class MonitoringTest(OverlayTest, unittest.TestCase):
    overlay = "monitoring"
    kinds = {"ServiceMonitor", "PrometheusRule"}


if __name__ == "__main__":
    support.main()
